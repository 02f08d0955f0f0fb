/**
 * Limits of sign-ins that outsiders cannot use to lock somebody out. Tries for an account are few per minute, from
 * whatever address: addresses are many. A browser that has signed in to the account before has a signed cookie
 * and tries of its own, which nobody else can use up (OWASP: "Slow Down Online Guessing Attacks with Device
 * Cookies").
 */
import { createHash, randomBytes } from "node:crypto";
import type { Database } from "@millrace/db";
import { APIError, createAuthMiddleware } from "better-auth/api";

export const SIGN_IN_PATH = "/sign-in/email";
/** More than one address gets, so that one alone locks nobody out. */
const ACCOUNT_TRIES_PER_MINUTE = 30;
const DEVICE_TRIES_PER_MINUTE = 10;
const MINUTE_MS = 60_000;
const DEVICE_SECONDS = 180 * 24 * 3600;
const DEVICE_BYTES = 16;

export interface SignInLimitOptions {
  readonly db: Database;
  readonly secret: string;
  /** As the session's cookie has it. */
  readonly cookiePrefix: string;
  readonly cookieAttributes: Readonly<{
    secure: boolean;
    httpOnly: boolean;
    sameSite: "lax";
    path: string;
  }>;
}

/** Hooks around sign-in: the first refuses, the second remembers a browser that has signed in. */
export function signInLimits({ db, secret, cookiePrefix, cookieAttributes }: SignInLimitOptions) {
  const cookie = `${cookiePrefix}.device`;
  return {
    before: createAuthMiddleware(async (ctx) => {
      const account = accountOf(ctx.path, ctx.body);
      if (account === undefined) return;
      const known = (await ctx.getSignedCookie(cookie, secret)) || "";
      const [knownAccount, device] = known.split(".");
      const isKnown = knownAccount === account && device !== undefined;
      // Unknown accounts count too: who is refused must not tell which accounts there are.
      const [key, max] = isKnown
        ? [`sign-in-device|${device}`, DEVICE_TRIES_PER_MINUTE]
        : [`sign-in|${account}`, ACCOUNT_TRIES_PER_MINUTE];
      if ((await db.rateLimits.count(key, MINUTE_MS, Date.now())) <= max) return;
      throw new APIError("TOO_MANY_REQUESTS", { message: "Too many attempts. Wait a minute." });
    }),
    after: createAuthMiddleware(async (ctx) => {
      const account = accountOf(ctx.path, ctx.body);
      if (account === undefined || !ctx.context.newSession) return;
      const device = randomBytes(DEVICE_BYTES).toString("base64url");
      const attributes = { ...cookieAttributes, maxAge: DEVICE_SECONDS };
      await ctx.setSignedCookie(cookie, `${account}.${device}`, secret, attributes);
    }),
  };
}

/** Hashed: the key has a bounded length, and neither cookies nor rows hold addresses. */
function accountOf(path: string, body: unknown): string | undefined {
  if (path !== SIGN_IN_PATH || typeof body !== "object" || body === null) return undefined;
  const { email } = body as { email?: unknown };
  if (typeof email !== "string") return undefined;
  return createHash("sha256").update(email.toLowerCase()).digest("base64url");
}
