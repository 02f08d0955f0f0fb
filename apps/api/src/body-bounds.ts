import { type Contract, contracts } from "@millrace/contract";
import type { Context } from "hono";

/** The largest sensible request is a topic with many settings; this is ten of those. */
const BODY_BYTES_MAX = 1024 * 1024;
/** Room for the names and brackets around a body's records, and for tRPC's envelope. */
const FRAME_BYTES = 512 * 1024;

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
  const bytes = max + FRAME_BYTES;
  return [
    { path: new RegExp(`^${rest}$`), bytes },
    { path: new RegExp(`^/trpc/${name.replaceAll(".", "\\.")}$`), bytes },
  ];
}
