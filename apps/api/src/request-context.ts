import type { ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { type Authenticator, authenticate, authorize, type RequestOrigin } from "@millrace/auth";
import type { CoreParts } from "@millrace/core";
import { newId, type Permission, type Principal } from "@millrace/domain";
import type { RequestContext } from "@millrace/router";
import type { Context, HonoRequest, MiddlewareHandler } from "hono";
import type { Logger } from "pino";
import { clientAddress, type TrustedProxies } from "./client-address.ts";
import type { RequestCharge, RequestLimits } from "./limits/request-limits.ts";
import { cutUnwritten } from "./response-end.ts";

/** What the whole server works with. */
export interface ApiParts {
  readonly core: CoreParts;
  readonly authenticator: Authenticator;
  readonly log: Logger;
  /** Undefined where nothing is limited: in tests that ask often. */
  readonly limits: RequestLimits | undefined;
  readonly proxies: TrustedProxies;
  /** Aborts when the server stops: streams and long polls end. */
  readonly stopping: AbortSignal;
}

export interface ApiEnv {
  Variables: {
    requestId: string;
    context: RequestContext;
    /** Undefined where nothing is limited. */
    charge: RequestCharge | undefined;
  };
}

/** What the audit log says about where a request came from. */
export function originOf(c: Context<ApiEnv>): RequestOrigin {
  return { requestId: c.get("requestId"), clientAddress: c.get("context").clientAddress };
}

/** A caller may name its request; anything that does not look like an id is replaced. */
const REQUEST_ID = /^[A-Za-z0-9._-]{8,100}$/;

/** The largest answer has 52 MiB: 4 Mbit/s are enough. */
const WRITE_MS_MAX = 120_000;
/** Answers without an end of their own: a stream bounds itself. */
const STREAM_TYPES = /^(text\/event-stream|application\/x-ndjson)/;

/** Gives each request its id and context, and writes one line of log when it is answered. */
export function requestContext(parts: ApiParts): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const begun = performance.now();
    const named = c.req.header("x-request-id") ?? "";
    const requestId = REQUEST_ID.test(named) ? named : newId("req");
    c.set("requestId", requestId);
    const charge = parts.limits?.forRequest(callsOf(c.req));
    c.set("charge", charge);
    const { outgoing } = (c.env ?? {}) as Partial<HttpBindings>;
    const answered = Promise.withResolvers<void>();
    outgoing?.once("close", answered.resolve);
    const cutAfter = (ms: number) => outgoing && cutUnwritten(outgoing as ServerResponse, ms);
    c.set("context", contextOf(parts, c, { requestId, answered: answered.promise, cutAfter }));
    await next();
    // Called without a server, as tests do: nobody writes.
    if (outgoing === undefined) answered.resolve();
    if (!STREAM_TYPES.test(c.res.headers.get("content-type") ?? "")) cutAfter(WRITE_MS_MAX);
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

/** A tRPC request may ask for several procedures. tRPC decodes the path before it splits it; Hono keeps `%2C`. */
function callsOf({ path, url }: HonoRequest): number {
  return path.startsWith("/trpc/") ? new URL(url).pathname.split(/,|%2c/i).length : 1;
}

function contextOf(
  parts: ApiParts,
  c: Context<ApiEnv>,
  request: Pick<RequestContext, "requestId" | "answered" | "cutAfter">,
): RequestContext {
  let principal: Promise<Principal> | undefined;
  let slot: Promise<void> | undefined;
  const { method, headers, signal } = c.req.raw;
  const { incoming } = (c.env ?? {}) as Partial<HttpBindings>;
  const address = clientAddress(headers, incoming, parts.proxies);
  const authenticateAgain = () =>
    authenticate(parts.authenticator, { method, headers, clientAddress: address });
  const authenticateOnce = async () => {
    const found = await authenticateAgain();
    c.get("charge")?.takeCaller(found);
    return found;
  };
  const caller = () => {
    principal ??= authenticateOnce();
    return principal;
  };
  const takeBodySlot = async (permission: Permission) => {
    const one = await caller();
    authorize(one, permission);
    const release = parts.core.requestSlots.acquire("produce", one);
    void request.answered.then(release);
  };
  return {
    ...request,
    core: parts.core,
    clientAddress: address,
    instance: c.req.path,
    signal: AbortSignal.any([signal, parts.stopping]),
    report: (err, message) => parts.log.error({ requestId: request.requestId, err }, message),
    authenticate: caller,
    authenticateAgain,
    takeBodySlot(permission) {
      slot ??= takeBodySlot(permission);
      return slot;
    },
  };
}
