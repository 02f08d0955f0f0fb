import {
  AUTH_BASE_PATH,
  createIdentity,
  type DeferredWrites,
  IdentityProviders,
  OutgoingRequests,
} from "@millrace/auth";
import { BrokerCalls, type BrokerHttpAccess, createCore, type RegionDrivers } from "@millrace/core";
import type { Database } from "@millrace/db";
import { type BucketPolicy, type Clock, DomainError, systemClock } from "@millrace/domain";
import { appRouter, toDomainError } from "@millrace/router";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { type Context, Hono } from "hono";
import { compress } from "hono/compress";
import type { Logger } from "pino";
import { boundBodies } from "./body-bounds.ts";
import { bodyText } from "./body-text.ts";
import { TrustedProxies, withClientAddress } from "./client-address.ts";
import { cspReports } from "./csp-reports.ts";
import { docsRoutes } from "./docs-routes.ts";
import { invitationRoutes } from "./invitation-routes.ts";
import { assertShallow } from "./json-depth.ts";
import { limitRequests } from "./limits/limit-requests.ts";
import { type LimitName, RequestLimits } from "./limits/request-limits.ts";
import { platformRoutes, signOutAndEndImpersonation } from "./platform-routes.ts";
import { problemResponse } from "./problem-response.ts";
import { promqlRoutes } from "./promql-routes.ts";
import { type ApiEnv, type ApiParts, originOf, requestContext } from "./request-context.ts";
import { restRoutes } from "./rest/rest-routes.ts";
import { SSO_CALLBACK_PATH, SSO_PATH, ssoRoutes } from "./sso-routes.ts";
import { webHeaders } from "./web-headers.ts";

/** Procedures in one tRPC request; the console asks for fewer. */
const BATCH_MAX = 20;
const TRPC_PATH = "/trpc";
const UNLIMITED = { capacity: Number.MAX_SAFE_INTEGER, perSecond: 1 };

export interface ApiOptions {
  readonly db: Database;
  /** Signs sessions and page tokens; at least 32 characters. */
  readonly secret: string;
  /** Secrets that it replaced, newest first: what they sealed still opens. */
  readonly replacedSecrets?: readonly string[];
  readonly apiUrl: string;
  readonly consoleUrl: string;
  readonly log: Logger;
  /** The way to brokers' admin HTTP. */
  readonly brokerHttp: BrokerHttpAccess;
  /** Where clusters can be made, and who plans them. */
  readonly drivers: RegionDrivers;
  /** Whose `X-Forwarded-For` is believed; the console on this machine by default. */
  readonly trustedProxies?: TrustedProxies;
  /** Aborts when the server stops: streams and long polls end. */
  readonly stopping?: AbortSignal;
  readonly clock?: Clock;
  /** Takes the writes that answers do not wait for; wait for them before closing `db`. */
  readonly deferredWrites: DeferredWrites;
  /** Asks tenants' identity providers; by default none on a private address. */
  readonly outgoing?: OutgoingRequests;
  /** Whether platform operators may impersonate members with write access; not by default. */
  readonly impersonationMayWrite?: boolean;
  /** Off in tests that sign in or ask often. */
  readonly rateLimit?: boolean;
  /** Other limits of requests than usual, for tests. */
  readonly requestPolicies?: Readonly<Record<LimitName, BucketPolicy>>;
}

/** The whole API as one function from request to response. */
export function createApi(options: ApiOptions): Hono<ApiEnv> {
  const { db, log, secret, replacedSecrets = [], apiUrl } = options;
  const clock = options.clock ?? systemClock;
  const trustedOrigins = [options.consoleUrl, apiUrl].flatMap(originsOf);
  const identity = createIdentity({
    db,
    secret,
    replacedSecrets,
    apiUrl,
    trustedOrigins,
    deferredWrites: options.deferredWrites,
    ...(options.rateLimit !== undefined && { rateLimit: options.rateLimit }),
  });
  const { brokerHttp, drivers } = options;
  const core = createCore({
    ...{ db, secret, replacedSecrets, clock, brokerHttp, drivers },
    consoleUrl: options.consoleUrl,
    identityProviders: new IdentityProviders(
      new URL(`${SSO_PATH}${SSO_CALLBACK_PATH}`, options.consoleUrl).href,
      options.outgoing ?? new OutgoingRequests(),
    ),
    ...(options.rateLimit === false && { brokerCalls: new BrokerCalls(UNLIMITED) }),
  });
  const parts: ApiParts = {
    core,
    authenticator: {
      ...{ db, clock, identity, trustedOrigins },
      impersonationMayWrite: options.impersonationMayWrite ?? false,
    },
    log,
    limits: options.rateLimit === false ? undefined : new RequestLimits(options.requestPolicies),
    proxies: options.trustedProxies ?? new TrustedProxies(),
    stopping: options.stopping ?? new AbortController().signal,
  };

  const app = new Hono<ApiEnv>();
  app.use(requestContext(parts));
  app.use(webHeaders(apiUrl.startsWith("https:")));
  // Ahead of the limits: load balancers ask as often as they like.
  app.get("/healthz", async (c) => {
    await db.ping();
    return c.json({ status: "ok" });
  });
  app.use(limitRequests(log));
  // Event streams stay as they are: Hono leaves their media type out.
  app.use(compress());
  app.use(boundBodies(log));
  app.on(["GET", "POST"], `${AUTH_BASE_PATH}/*`, async (c) => {
    const origin = originOf(c);
    const request = withClientAddress(c.req.raw, origin.clientAddress);
    const answer = () => identity.handle(request, origin);
    if (c.req.path !== `${AUTH_BASE_PATH}/sign-out`) return (await answer()) ?? c.notFound();
    return (await signOutAndEndImpersonation(db, identity, c, answer)) ?? c.notFound();
  });
  app.route("/api/invitations", invitationRoutes(parts, identity));
  app.route("/api/platform", platformRoutes(parts, identity, options));
  app.route(SSO_PATH, ssoRoutes(parts, identity, options));
  app.all(`${TRPC_PATH}/*`, (c) => trpc(c, parts));
  app.route("/", cspReports(log));
  app.route("/", docsRoutes(apiUrl));
  app.route("/", promqlRoutes(log));
  app.route("/", restRoutes({ log, secret }));
  app.notFound((c) => problemResponse(c, log, noRoute(c.req.method, c.req.path)));
  app.onError((error, c) => problemResponse(c, log, error));
  return app;
}

async function trpc(c: Context<ApiEnv>, { log }: ApiParts): Promise<Response> {
  const { raw } = c.req;
  const context = c.get("context");
  const body = raw.body === null ? undefined : await bodyText(c);
  assertShallow(body ?? c.req.query("input") ?? "");
  return fetchRequestHandler({
    endpoint: TRPC_PATH,
    req: body === undefined ? raw : new Request(raw, { body }),
    router: appRouter,
    createContext: () => context,
    maxBatchSize: BATCH_MAX,
    onError: ({ error, path }) => {
      if (toDomainError(error).status < 500) return;
      log.error({ requestId: context.requestId, path, err: error }, "a procedure failed");
    },
  });
}

/** The origin of `url`; of this machine by name, also by address: people type either. */
function originsOf(url: string): string[] {
  const { origin, protocol, hostname, port } = new URL(url);
  if (hostname !== "localhost") return [origin];
  return [origin, new URL(`${protocol}//127.0.0.1:${port}`).origin];
}

function noRoute(method: string, path: string): DomainError {
  return new DomainError("route_not_found", `There is no ${method} ${path}.`, {
    remedy: "The reference at /docs lists the routes of the API.",
  });
}
