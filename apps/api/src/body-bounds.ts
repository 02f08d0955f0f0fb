import { type Contract, contracts } from "@millrace/contract";
import { DomainError, type Permission } from "@millrace/domain";
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { Logger } from "pino";
import { problemResponse } from "./problem-response.ts";
import type { ApiEnv } from "./request-context.ts";

/** The largest sensible request is a topic with many settings; this is ten of those. */
const BODY_BYTES_MAX = 1024 * 1024;
/** tRPC wraps a body and names its cluster and topic. */
const ENVELOPE_BYTES = 4 * 1024;

interface BodyBound {
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

/** Refuses bodies that are too large. A large one that is allowed takes its slot before it is read. */
export function boundBodies(log: Logger): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const { bytes: maxSize, permission } = bodyBound(c);
    if (permission !== undefined) {
      const slot = c.get("context").takeBodySlot(permission);
      const isRefused = await slot.then(
        () => false,
        () => true,
      );
      // The route refuses the caller for the same reason, in its own form: nobody reads the body, and
      // whoever tried to would find an empty one.
      if (isRefused) c.req.raw = withoutBody(c.req.raw);
    }
    const onError = () => problemResponse(c, log, tooLarge(maxSize));
    return bodyLimit({ maxSize, onError })(c, next);
  };
}

/** How many bytes the body of a request may have. */
function bodyBound({ req }: Context<ApiEnv>): BodyBound {
  if (req.method !== "POST") return USUAL;
  return BOUNDS.find(({ path }) => path.test(req.path)) ?? USUAL;
}

function withoutBody({ url, method, headers, signal }: Request): Request {
  return new Request(url, { method, headers, signal });
}

function tooLarge(maxSize: number): DomainError {
  const bytes = maxSize.toLocaleString("en");
  return new DomainError("payload_too_large", `This request may have at most ${bytes} bytes.`);
}

function boundsOf({ name, path, permission }: Contract, max: number): Bound[] {
  const rest = path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+");
  const procedure = name.replaceAll(".", "\\.");
  return [
    { path: new RegExp(`^${rest}$`), bytes: max, permission },
    { path: new RegExp(`^/trpc/${procedure}$`), bytes: max + ENVELOPE_BYTES, permission },
  ];
}
