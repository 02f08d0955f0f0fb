import type { Database } from "@millrace/db";
import {
  type IdPrefix,
  newId,
  PASSWORD_LENGTH_MAX,
  PASSWORD_LENGTH_MIN,
  type UserId,
} from "@millrace/domain";
import { betterAuth } from "better-auth";
import { prismaAdapter } from "better-auth/adapters/prisma";
import { SIGN_IN_PATH, signInLimits } from "./sign-in-limits.ts";

/** Where better-auth's own endpoints are served. */
export const AUTH_BASE_PATH = "/api/auth";
/** Header in which the server tells the address of the client; it removes what a client sends. */
export const CLIENT_IP_HEADER = "x-millrace-client-ip";

const SESSION_SECONDS = 7 * 24 * 3600;
const SESSION_RENEW_SECONDS = 24 * 3600;
/** Tries to sign in per address and minute: many for people, few for a dictionary. */
const SIGN_IN_PER_MINUTE = 20;
const REQUESTS_PER_MINUTE = 600;
/**
 * What of better-auth is served. It brings some forty endpoints, and more with each release; those
 * that nobody has looked at stay closed.
 */
const SERVED_PATHS: ReadonlySet<string> = new Set(
  [SIGN_IN_PATH, "/sign-out", "/get-session", "/change-password"].map(
    (path) => AUTH_BASE_PATH + path,
  ),
);

export interface IdentityOptions {
  readonly db: Database;
  /** Signs session cookies; at least 32 characters. */
  readonly secret: string;
  /** Public address of the API. */
  readonly apiUrl: string;
  /** Origins whose pages may use session cookies. */
  readonly trustedOrigins: readonly string[];
  /** Off in tests that sign in often. */
  readonly rateLimit?: boolean;
}

export interface NewUser {
  readonly email: string;
  readonly name: string;
  readonly password: string;
}

/** People: their passwords and sessions. Tenants and roles are not its business. */
export interface Identity {
  /** Serves sign-in, sign-out, session and change of password; undefined for any other path. */
  handle(request: Request): Promise<Response> | undefined;
  /** The user whose live session the request's cookie names. */
  sessionUser(headers: Headers): Promise<UserId | undefined>;
  createUser(user: NewUser): Promise<UserId>;
  /** Replaces the password and ends every session of the user. */
  setPassword(userId: UserId, password: string): Promise<void>;
  verifyPassword(userId: UserId, password: string): Promise<boolean>;
}

const PREFIX_BY_MODEL: Readonly<Record<string, IdPrefix>> = {
  user: "usr",
  session: "ses",
  account: "acc",
  verification: "ver",
  rateLimit: "rlm",
};

export function createIdentity(options: IdentityOptions): Identity {
  const auth = configure(options);
  return {
    handle: (request) =>
      SERVED_PATHS.has(new URL(request.url).pathname) ? auth.handler(request) : undefined,
    async sessionUser(headers) {
      const session = await auth.api.getSession({ headers });
      return session?.user.id as UserId | undefined;
    },
    async createUser({ email, name, password }) {
      const { internalAdapter, password: hasher } = await auth.$context;
      const user = await internalAdapter.createUser(
        { email: email.toLowerCase(), name, emailVerified: true },
        { method: "email-password" },
      );
      await internalAdapter.linkAccount({
        userId: user.id,
        providerId: "credential",
        accountId: user.id,
        password: await hasher.hash(password),
      });
      return user.id as UserId;
    },
    async setPassword(userId, password) {
      const { internalAdapter, password: hasher } = await auth.$context;
      await internalAdapter.updatePassword(userId, await hasher.hash(password));
      await internalAdapter.deleteUserSessions(userId);
    },
    async verifyPassword(userId, password) {
      const { internalAdapter, password: hasher } = await auth.$context;
      const accounts = await internalAdapter.findAccounts(userId);
      const hash = accounts.find((account) => account.providerId === "credential")?.password;
      return hash ? hasher.verify({ hash, password }) : false;
    },
  };
}

function configure(options: IdentityOptions) {
  const cookies = cookieNames(options.trustedOrigins);
  return betterAuth({
    appName: "Millrace",
    baseURL: options.apiUrl,
    basePath: AUTH_BASE_PATH,
    secret: options.secret,
    trustedOrigins: [...options.trustedOrigins],
    database: prismaAdapter(options.db.identityStore, { provider: "postgresql" }),
    emailAndPassword: {
      enabled: true,
      // Accounts are made by operators; a public sign-up is a decision that nobody has taken.
      disableSignUp: true,
      minPasswordLength: PASSWORD_LENGTH_MIN,
      maxPasswordLength: PASSWORD_LENGTH_MAX,
    },
    session: { expiresIn: SESSION_SECONDS, updateAge: SESSION_RENEW_SECONDS },
    ...(options.rateLimit !== false && {
      hooks: signInLimits({
        db: options.db,
        secret: options.secret,
        cookiePrefix: cookies.cookiePrefix,
        cookieAttributes: cookies.defaultCookieAttributes,
      }),
    }),
    rateLimit: {
      enabled: options.rateLimit ?? true,
      storage: "database",
      window: 60,
      max: REQUESTS_PER_MINUTE,
      customRules: { [SIGN_IN_PATH]: { window: 60, max: SIGN_IN_PER_MINUTE } },
    },
    advanced: {
      ...cookies,
      // Said aloud, because better-auth would leave the check out under test.
      disableOriginCheck: false,
      ipAddress: { ipAddressHeaders: [CLIENT_IP_HEADER] },
      database: { generateId: ({ model }) => newId(prefixOf(model)) },
    },
    logger: { level: "error" },
    telemetry: { enabled: false },
  });
}

/**
 * The browser sees the console's origin; where that has no TLS, neither can the cookie. `__Host-` (RFC 6265bis)
 * keeps other hosts of the domain from setting it. better-auth knows only `__Secure-`, so the prefix and what it
 * demands are set here.
 */
function cookieNames(origins: readonly string[]) {
  const secure = origins.every((origin) => origin.startsWith("https:"));
  return {
    cookiePrefix: secure ? "__Host-millrace" : "millrace",
    useSecureCookies: false,
    defaultCookieAttributes: { secure, httpOnly: true, sameSite: "lax", path: "/" },
  } as const;
}

function prefixOf(model: string): IdPrefix {
  const prefix = PREFIX_BY_MODEL[model];
  if (!prefix) throw new Error(`no id prefix for ${model}`);
  return prefix;
}
