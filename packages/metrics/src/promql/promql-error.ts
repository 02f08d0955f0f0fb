/** Prometheus' kinds of error, as its HTTP API names them. */
export type PromqlErrorType = "bad_data" | "execution" | "timeout";

/** A query that is wrong, or that this evaluator refuses to compute. Its message is for the caller. */
export class PromqlError extends Error {
  readonly type: PromqlErrorType;

  constructor(type: PromqlErrorType, message: string) {
    super(message);
    this.name = "PromqlError";
    this.type = type;
  }
}

/** `bad_data` about a place in the query, counted from 1 as Prometheus does. */
export function badQuery(query: string, offset: number, message: string): PromqlError {
  const before = query.slice(0, offset);
  const line = before.split("\n").length;
  const column = offset - (before.lastIndexOf("\n") + 1) + 1;
  return new PromqlError("bad_data", `${line}:${column}: parse error: ${message}`);
}
