import { useState } from "react";

interface Polled {
  readonly data: unknown;
  readonly error: unknown;
}

/**
 * The error of a polled query that has no data yet. A query without data drops its error whenever it
 * asks again: the page would alternate between the error and a placeholder.
 */
export function lastError(kept: unknown, { data, error }: Polled): unknown {
  return data === undefined ? (error ?? kept) : error;
}

/** `lastError` of a query from one render to the next. */
export function useLastError(query: Polled): unknown {
  const [kept, keep] = useState<unknown>(null);
  const error = lastError(kept, query);
  if (error !== kept) keep(error);
  return error;
}
