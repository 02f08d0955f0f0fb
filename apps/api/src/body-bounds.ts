import { type Contract, contracts } from "@millrace/contract";
import type { Permission } from "@millrace/domain";
import type { Context } from "hono";

/** The largest sensible request is a topic with many settings; this is ten of those. */
const BODY_BYTES_MAX = 1024 * 1024;
/** tRPC wraps a body and names its cluster and topic. */
const ENVELOPE_BYTES = 4 * 1024;

export interface BodyBound {
  readonly bytes: number;
  /** What a caller needs before a larger body than usual is read; undefined for a usual one. */
  readonly permission: Permission | undefined;
}

interface Bound extends BodyBound {
  readonly path: RegExp;
}

const USUAL: BodyBound = { bytes: BODY_BYTES_MAX, permission: undefined };

/** Routes whose bodies may be larger, over REST and over tRPC. */
const BOUNDS: readonly Bound[] = contracts.flatMap((contract) =>
  contract.bodyBytesMax === undefined ? [] : boundsOf(contract, contract.bodyBytesMax),
);

/** How many bytes the body of a request may have. */
export function bodyBound({ req }: Context): BodyBound {
  if (req.method !== "POST") return USUAL;
  return BOUNDS.find(({ path }) => path.test(req.path)) ?? USUAL;
}

function boundsOf({ name, path, permission }: Contract, max: number): Bound[] {
  const rest = path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+");
  const procedure = name.replaceAll(".", "\\.");
  return [
    { path: new RegExp(`^${rest}$`), bytes: max, permission },
    { path: new RegExp(`^/trpc/${procedure}$`), bytes: max + ENVELOPE_BYTES, permission },
  ];
}
