/**
 * Signing in through an organization's identity provider. Not part of REST v1: these are steps of a browser. The
 * provider sends it back to the callback, which answers with redirects to the console alone.
 */
import {
  assertOwnPage,
  type Identity,
  refusedRequestIn,
  SSO_ATTEMPT_SECONDS,
  type SsoAttempt,
  SsoAttempts,
} from "@millrace/auth";
import { beginSsoProof, beginSsoSignIn, finishSso } from "@millrace/core";
import { DomainError, EMAIL_LENGTH_MAX, type SsoRefusal, SsoRefused } from "@millrace/domain";
import { type Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { Logger } from "pino";
import { z } from "zod";
import { addressNetwork, withClientAddress } from "./client-address.ts";
import { jsonBody } from "./json-body.ts";
import { problemResponse } from "./problem-response.ts";
import type { ApiEnv, ApiParts } from "./request-context.ts";

export const SSO_PATH = "/api/sso";
export const SSO_CALLBACK_PATH = "/callback";

/** Sign-ins and confirmations begun per address: each may cost requests to a provider. */
const BEGUN_PER_MINUTE = 60;
const MINUTE_MS = 60_000;
const RETURN_TO_MAX = 500;

const returnTo = z.string().max(RETURN_TO_MAX).startsWith("/").default("/");
const Start = z.strictObject({
  /** The organization's slug, or a mail address. */
  name: z.string().trim().min(1).max(EMAIL_LENGTH_MAX),
  return_to: returnTo,
});
const Confirm = z.strictObject({ return_to: returnTo });

export interface SsoRoutesOptions {
  readonly secret: string;
  readonly consoleUrl: string;
}

export function ssoRoutes(
  { core, authenticator, log }: ApiParts,
  identity: Identity,
  { secret, consoleUrl }: SsoRoutesOptions,
): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const attempts = new SsoAttempts(secret);
  const cookie = identity.cookie("sso");
  const begun = (c: Context, { location, attempt }: { location: string; attempt: SsoAttempt }) => {
    const attributes = {
      ...cookie.attributes,
      sameSite: "Lax",
      maxAge: SSO_ATTEMPT_SECONDS,
    } as const;
    setCookie(c, cookie.name, attempts.seal(attempt), attributes);
    return c.json({ location });
  };
  app.onError((error, c) => {
    if (error instanceof SsoRefused) logRefusal(c, log, error);
    return problemResponse(c, log, error);
  });
  app.use(async (c, next) => {
    assertOwnPage(authenticator, { method: c.req.method, headers: c.req.raw.headers });
    await next();
    c.header("Cache-Control", "no-store");
  });
  // Not the callback: who comes back from the provider has been counted, and each attempt works once.
  app.on("POST", ["/start", "/confirm"], async (c, next) => {
    const key = `sso|${addressNetwork(c.get("context").clientAddress)}`;
    const tries = await core.db.rateLimits.count(key, MINUTE_MS, Date.now());
    if (tries > BEGUN_PER_MINUTE) {
      throw new DomainError("rate_limited", "Too many attempts.", { retryAfterSeconds: 60 });
    }
    await next();
  });
  app.post("/start", async (c) => {
    const { name, return_to: back } = Start.parse(await jsonBody(c));
    return begun(c, await beginSsoSignIn(core, { name, returnTo: back }));
  });
  app.post("/confirm", async (c) => {
    const { return_to: back } = Confirm.parse(await jsonBody(c));
    const session = await identity.session(c.req.raw.headers);
    if (session?.ssoOrganizationId === undefined) {
      throw new DomainError("unauthenticated", "You are not signed in with single sign-on.");
    }
    const { id: sessionId, ssoOrganizationId: organizationId, user } = session;
    const request = { organizationId, sessionId, email: user.email, returnTo: back };
    return begun(c, await beginSsoProof(core, request));
  });
  app.get(`${SSO_CALLBACK_PATH}/:connectionId`, async (c) => {
    const attempt = attempts.open(getCookie(c, cookie.name));
    // An answer is for one try.
    deleteCookie(c, cookie.name, { path: "/", secure: cookie.attributes.secure });
    if (!attempt) return failed(c, consoleUrl, "expired");
    const { clientAddress } = c.get("context");
    const { headers, url } = withClientAddress(c.req.raw, clientAddress);
    try {
      const cookies = await finishSso(
        { parts: core, identity },
        {
          ...{ attempt, connectionId: c.req.param("connectionId"), headers },
          ...{ query: new URL(url).search, requestId: c.get("requestId") },
          session: attempt.sessionId && (await identity.session(headers)),
          ...{ clientAddress, clientNetwork: addressNetwork(clientAddress) },
        },
      );
      for (const each of cookies) c.header("Set-Cookie", each, { append: true });
      return c.redirect(pageOf(consoleUrl, attempt.returnTo).href);
    } catch (error) {
      // A browser is to see a page of the console, whatever happened.
      const refusal = error instanceof SsoRefused ? error.refusal : "internal";
      if (error instanceof SsoRefused) logRefusal(c, log, error, attempt);
      else log.error({ requestId: c.get("requestId"), err: error }, "a sign-in failed");
      return failed(c, consoleUrl, refusal, attempt);
    }
  });
  return app;
}

function logRefusal(
  c: Context<ApiEnv>,
  log: Logger,
  { refusal, cause, message }: SsoRefused,
  attempt?: SsoAttempt,
): void {
  // The cause's message alone: the rest of it may hold a token.
  const reason = refusedRequestIn(cause) ?? cause;
  const fields = {
    ...{ requestId: c.get("requestId"), organizationId: attempt?.organizationId, refusal },
    reason: reason instanceof Error ? reason.message : undefined,
  };
  log.warn(fields, message);
}

/** Whoever is signed in stays where they were. */
function failed(
  c: Context,
  consoleUrl: string,
  refusal: SsoRefusal,
  attempt?: SsoAttempt,
): Response {
  const path = attempt?.sessionId === undefined ? "/sign-in" : attempt.returnTo;
  const page = pageOf(consoleUrl, path);
  page.searchParams.set("sso", refusal);
  return c.redirect(page.href);
}

/** A page of the console, whatever the path is read as. */
function pageOf(consoleUrl: string, path: string): URL {
  const home = new URL("/", consoleUrl);
  const page = URL.parse(path, home.href);
  return page?.origin === home.origin ? page : home;
}
