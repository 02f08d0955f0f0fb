/**
 * Signing in through an organization's identity provider. Not part of REST v1: these are steps of a browser. The
 * provider sends it back to the callback, which answers with redirects to the console alone.
 */
import {
  assertOwnPage,
  type Identity,
  SSO_ATTEMPT_SECONDS,
  type SsoAttempt,
  SsoAttempts,
} from "@millrace/auth";
import { beginSsoProof, beginSsoSignIn, finishSso } from "@millrace/core";
import { DomainError, type SsoRefusal, SsoRefused } from "@millrace/domain";
import { type Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { z } from "zod";
import { addressNetwork, withClientAddress } from "./client-address.ts";
import { problemResponse } from "./problem-response.ts";
import type { ApiEnv, ApiParts } from "./request-context.ts";

export const SSO_PATH = "/api/sso";
export const SSO_CALLBACK_PATH = "/callback";

/** Requests per address, of which a sign-in takes two: each may cost requests to a provider. */
const REQUESTS_PER_MINUTE = 60;
const MINUTE_MS = 60_000;
const RETURN_TO_MAX = 500;

const returnTo = z.string().max(RETURN_TO_MAX).startsWith("/").default("/");
const Start = z.strictObject({
  /** The organization's slug, or a mail address. */
  name: z.string().trim().min(1).max(254),
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
  app.onError((error, c) => problemResponse(c, log, error));
  app.use(async (c, next) => {
    assertOwnPage(authenticator, { method: c.req.method, headers: c.req.raw.headers });
    const key = `sso|${addressNetwork(c.get("context").clientAddress)}`;
    const tries = await core.db.rateLimits.count(key, MINUTE_MS, Date.now());
    if (tries > REQUESTS_PER_MINUTE) {
      throw new DomainError("rate_limited", "Too many attempts.", { retryAfterSeconds: 60 });
    }
    await next();
    c.header("Cache-Control", "no-store");
  });
  app.post("/start", async (c) => {
    const { name, return_to: back } = Start.parse(await bodyOf(c));
    return begun(c, await beginSsoSignIn(core, { name, returnTo: back }));
  });
  app.post("/confirm", async (c) => {
    const { return_to: back } = Confirm.parse(await bodyOf(c));
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
      const userId = await finishSso(
        { parts: core, identity },
        {
          ...{ attempt, connectionId: c.req.param("connectionId") },
          ...{ query: new URL(url).search, requestId: c.get("requestId") },
          session: attempt.sessionId && (await identity.session(headers)),
          clientAddress,
        },
      );
      if (attempt.sessionId === undefined) {
        const cookies = await identity.openSsoSession(userId, attempt.organizationId, headers);
        for (const each of cookies) c.header("Set-Cookie", each, { append: true });
      }
      return c.redirect(pageOf(consoleUrl, attempt.returnTo));
    } catch (error) {
      if (!(error instanceof SsoRefused)) throw error;
      const { organizationId } = attempt;
      const { refusal, cause } = error;
      // The cause's message alone: the rest of it may hold a token.
      const reason = cause instanceof Error ? cause.message : undefined;
      const fields = { requestId: c.get("requestId"), organizationId, refusal, reason };
      log.warn(fields, error.message);
      return failed(c, consoleUrl, refusal);
    }
  });
  return app;
}

function failed(c: Context, consoleUrl: string, refusal: SsoRefusal): Response {
  return c.redirect(pageOf(consoleUrl, `/sign-in?sso=${refusal}`));
}

/** A page of the console, whatever the path is read as. */
function pageOf(consoleUrl: string, path: string): string {
  const home = new URL("/", consoleUrl);
  const page = URL.parse(path, home.href);
  return page?.origin === home.origin ? page.href : home.href;
}

async function bodyOf(c: Context<ApiEnv>): Promise<unknown> {
  try {
    return await c.req.json();
  } catch (cause) {
    throw new DomainError("validation_failed", "The body must be JSON.", { cause });
  }
}
