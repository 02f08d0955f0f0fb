import { type Authenticator, authenticate } from "@millrace/auth";
import type { Core } from "@millrace/core";
import { newId, type Principal } from "@millrace/domain";
import type { RequestContext } from "@millrace/router";
import type { Context, MiddlewareHandler } from "hono";
import type { Logger } from "pino";

/** What the whole server works with. */
export interface ApiParts {
  readonly core: Core;
  readonly authenticator: Authenticator;
  readonly log: Logger;
  /** Aborts when the server stops: streams and long polls end. */
  readonly stopping: AbortSignal;
}

export interface ApiEnv {
  Variables: { requestId: string; context: RequestContext };
}

/** A caller may name its request; anything that does not look like an id is replaced. */
const REQUEST_ID = /^[A-Za-z0-9._-]{8,100}$/;

/** Gives each request its id and context, and writes one line of log when it is answered. */
export function requestContext(parts: ApiParts): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const begun = performance.now();
    const named = c.req.header("x-request-id") ?? "";
    const requestId = REQUEST_ID.test(named) ? named : newId("req");
    c.set("requestId", requestId);
    c.set("context", contextOf(parts, c, requestId));
    await next();
    c.header("X-Request-Id", requestId);
    const fields = {
      requestId,
      method: c.req.method,
      path: c.req.path,
      status: c.res.status,
      ms: Math.round(performance.now() - begun),
    };
    parts.log.info(fields, "request");
  };
}

function contextOf(parts: ApiParts, c: Context<ApiEnv>, requestId: string): RequestContext {
  let principal: Promise<Principal> | undefined;
  const { method, headers, signal } = c.req.raw;
  return {
    core: parts.core,
    requestId,
    instance: c.req.path,
    signal: AbortSignal.any([signal, parts.stopping]),
    authenticate() {
      principal ??= authenticate(parts.authenticator, { method, headers });
      return principal;
    },
  };
}
