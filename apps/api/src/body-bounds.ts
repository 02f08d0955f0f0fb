import { type Contract, contracts } from "@millrace/contract";
import type { Context } from "hono";

/** The largest sensible request is a topic with many settings; this is ten of those. */
const BODY_BYTES_MAX = 1024 * 1024;
/** tRPC wraps a body and names its cluster and topic. */
const ENVELOPE_BYTES = 4 * 1024;

interface Bound {
  readonly path: RegExp;
  readonly bytes: number;
}

/** Routes whose bodies may be larger, over REST and over tRPC. */
const BOUNDS: readonly Bound[] = contracts.flatMap((contract) =>
  contract.bodyBytesMax === undefined ? [] : boundsOf(contract, contract.bodyBytesMax),
);

/** How many bytes the body of a request may have. */
export function bodyBytesMax({ req }: Context): number {
  if (req.method !== "POST") return BODY_BYTES_MAX;
  return BOUNDS.find(({ path }) => path.test(req.path))?.bytes ?? BODY_BYTES_MAX;
}

function boundsOf({ name, path }: Contract, max: number): Bound[] {
  const rest = path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+");
  const procedure = name.replaceAll(".", "\\.");
  return [
    { path: new RegExp(`^${rest}$`), bytes: max },
    { path: new RegExp(`^/trpc/${procedure}$`), bytes: max + ENVELOPE_BYTES },
  ];
}
