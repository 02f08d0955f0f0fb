import type { Database, IdentityStore, Resealed } from "@millrace/db";
import {
  type IdPrefix,
  newId,
  type OrganizationId,
  PASSWORD_LENGTH_MAX,
  PASSWORD_LENGTH_MIN,
  PASSWORD_PROVIDER,
  SESSION_DAYS_MAX,
  SESSION_IDLE_HOURS_MAX,
  type SessionId,
  type UserId,
} from "@millrace/domain";
import { betterAuth } from "better-auth";
import { prismaAdapter } from "better-auth/adapters/prisma";
import { symmetricDecrypt, symmetricEncrypt } from "better-auth/crypto";
import { twoFactor } from "better-auth/plugins/two-factor";
import { parseCookies } from "better-call";
import { DeferredWrites } from "./deferred-writes.ts";
import {
  answerIdentityRequest,
  CHANGE_PASSWORD_PATH,
  CONFIRM_PATH,
  type IdentityParts,
  type LiveSession,
  type RequestOrigin,
} from "./identity-requests.ts";
import { SecondFactors } from "./second-factor.ts";
import { sealPrefix, secretVersions } from "./secret-versions.ts";
import { SIGN_IN_PATH, signInLimits } from "./sign-in-limits.ts";
import { ssoSessions } from "./sso-session.ts";

/** Where better-auth's own endpoints are served. */
export const AUTH_BASE_PATH = "/api/auth";
/** Header in which the server tells the address of the client; it removes what a client sends. */
export const CLIENT_IP_HEADER = "x-millrace-client-ip";

const SESSION_SECONDS = SESSION_DAYS_MAX * 24 * 3600;
const SESSION_IDLE_MS = SESSION_IDLE_HOURS_MAX * 3_600_000;
/** The last use of a session is noted at most this often. */
const SESSION_TOUCH_MS = 60_000;
/** Changes of a password per address and minute: each tells whether the old one was right. */
const PASSWORD_CHANGES_PER_MINUTE = 5;
/** How long a right password waits for the second factor. */
const SECOND_FACTOR_SECONDS = 600;
/** Tries to sign in per address and minute: many for people, few for a dictionary. */
const SIGN_IN_PER_MINUTE = 20;
const REQUESTS_PER_MINUTE = 600;
/**
 * What of better-auth is served. It brings some forty endpoints, and more with each release; those
 * that nobody has looked at stay closed.
 */
const SERVED_PATHS: ReadonlySet<string> = new Set([
  SIGN_IN_PATH,
  CONFIRM_PATH,
  CHANGE_PASSWORD_PATH,
  "/sign-out",
  "/get-session",
  "/two-factor/enable",
  "/two-factor/verify-totp",
  "/two-factor/verify-backup-code",
  "/two-factor/generate-backup-codes",
  "/two-factor/disable",
]);

export interface IdentityOptions {
  readonly db: Database;
  /** Signs session cookies; at least 32 characters. */
  readonly secret: string;
  /** Secrets that it replaced, newest first: second factors that they sealed keep working. */
  readonly replacedSecrets?: readonly string[];
  /** Public address of the API. */
  readonly apiUrl: string;
  /** Origins whose pages may use session cookies. */
  readonly trustedOrigins: readonly string[];
  /** Off in tests that sign in often. */
  readonly rateLimit?: boolean;
  /** Lines of the audit log that answers do not wait for; wait for them before closing `db`. */
  readonly deferredWrites?: DeferredWrites;
}

export interface NewUser {
  readonly email: string;
  readonly name: string;
  /** Undefined for somebody who signs in through an identity provider alone. */
  readonly password: string | undefined;
}

export interface NewSsoSession {
  readonly userId: UserId;
  readonly organizationId: OrganizationId;
  /** When the person proved who they are. */
  readonly authenticatedAt: Date;
  /** Of the request that opens it. */
  readonly headers: Headers;
}

/** People: their passwords and sessions. Tenants and roles are not its business. */
export interface Identity {
  /** Serves sign-in, sign-out, passwords and second factors; undefined for any other path. */
  handle(request: Request, origin: RequestOrigin): Promise<Response> | undefined;
  /** The live session that the request's cookie names. Notes that it was used. */
  session(headers: Headers): Promise<LiveSession | undefined>;
  /**
   * A session that is good for one organization alone. Answers with the cookies that it is known by. `store` is that of
   * a transaction.
   */
  openSsoSession(session: NewSsoSession, store: IdentityStore): Promise<string[]>;
  /** Name and attributes of another cookie that is protected as the session's is. */
  cookie(name: string): { readonly name: string; readonly attributes: CookieAttributes };
  /** `store` is that of a transaction, where the user is created with other things or not at all. */
  createUser(user: NewUser, store?: IdentityStore): Promise<UserId>;
  /** Replaces the password and ends every session of the user. `store` is as in `createUser`. */
  setPassword(userId: UserId, password: string, store?: IdentityStore): Promise<void>;
  verifyPassword(userId: UserId, password: string): Promise<boolean>;
  /** Seals second factors by the secret in use where a replaced one sealed them. */
  resealSecondFactors(): Promise<Resealed>;
}

export interface CookieAttributes {
  readonly secure: boolean;
  readonly httpOnly: true;
  readonly sameSite: "lax";
  readonly path: "/";
}

const PREFIX_BY_MODEL: Readonly<Record<string, IdPrefix>> = {
  user: "usr",
  session: "ses",
  account: "acc",
  verification: "ver",
  rateLimit: "rlm",
  twoFactor: "tfa",
};

export function createIdentity(options: IdentityOptions): Identity {
  const auth = configure(options);
  return {
    handle(request, origin) {
      const path = new URL(request.url).pathname.slice(AUTH_BASE_PATH.length);
      if (!SERVED_PATHS.has(path)) return undefined;
      return answerIdentityRequest(requestParts(auth, options), path, request, origin);
    },
    session: (headers) => liveSession(auth, options.db, headers),
    async openSsoSession({ headers, ...body }, store) {
      const own = configure({ ...options, db: { ...options.db, identityStore: store } });
      const { headers: answered } = await own.api.openSsoSession({
        ...{ body, headers, returnHeaders: true },
      });
      return answered.getSetCookie();
    },
    cookie(name) {
      const { cookiePrefix, defaultCookieAttributes } = cookieNames(options.trustedOrigins);
      return { name: `${cookiePrefix}.${name}`, attributes: defaultCookieAttributes };
    },
    async createUser({ email, name, password }, store = options.db.identityStore) {
      const { internalAdapter, password: hasher } = await contextIn(options, store);
      const user = await internalAdapter.createUser(
        // No mail is sent, so nobody has proved that the address is theirs.
        { email: email.toLowerCase(), name, emailVerified: false },
        { method: "email-password" },
      );
      if (password !== undefined) {
        await internalAdapter.linkAccount({
          userId: user.id,
          providerId: PASSWORD_PROVIDER,
          accountId: user.id,
          password: await hasher.hash(password),
        });
      }
      return user.id as UserId;
    },
    async setPassword(userId, password, store = options.db.identityStore) {
      const { internalAdapter, password: hasher } = await contextIn(options, store);
      await internalAdapter.updatePassword(userId, await hasher.hash(password));
      await internalAdapter.deleteUserSessions(userId);
    },
    verifyPassword: (userId, password) => verifyPassword(auth, userId, password),
    async resealSecondFactors() {
      const { secretConfig: key } = await auth.$context;
      return options.db.secondFactors.reseal(sealPrefix(options.secret), async (sealed) =>
        symmetricEncrypt({ key, data: await symmetricDecrypt({ key, data: sealed }) }),
      );
    },
  };
}

type Auth = ReturnType<typeof configure>;
/** The part that we use of what the library's hooks are told. */
type HookContext = {
  readonly path?: string;
  readonly context: {
    readonly session: { readonly session: object } | null;
  };
} | null;

async function liveSession(
  auth: Auth,
  { signIn }: Database,
  headers: Headers,
): Promise<LiveSession | undefined> {
  const found = await auth.api.getSession({ headers });
  if (!found) return undefined;
  const { session, user } = found;
  const [id, userId] = [session.id as SessionId, user.id as UserId];
  const unusedMs = Date.now() - session.updatedAt.getTime();
  if (unusedMs > SESSION_IDLE_MS) {
    await signIn.removeSession(userId, id);
    return undefined;
  }
  if (unusedMs > SESSION_TOUCH_MS) await signIn.touchSession(id, new Date());
  return {
    ...{ id, userId, user: { id: userId, email: user.email } },
    hasSecondFactor: user.twoFactorEnabled === true,
    authenticatedAt: session.authenticatedAt ?? session.createdAt,
    ssoOrganizationId: (session.ssoOrganizationId ?? undefined) as OrganizationId | undefined,
  };
}

async function verifyPassword(auth: Auth, userId: UserId, password: string): Promise<boolean> {
  const { internalAdapter, password: hasher } = await auth.$context;
  const accounts = await internalAdapter.findAccounts(userId);
  const hash = accounts.find((account) => account.providerId === PASSWORD_PROVIDER)?.password;
  return hash ? hasher.verify({ hash, password }) : false;
}

/** The library's own parts, which write to `store`. */
function contextIn(options: IdentityOptions, identityStore: IdentityStore) {
  return configure({ ...options, db: { ...options.db, identityStore } }).$context;
}

function unhandled(error: unknown): never {
  throw error;
}

function requestParts(auth: Auth, options: IdentityOptions): IdentityParts {
  const { db, trustedOrigins } = options;
  const secondFactors = new SecondFactors(db.secondFactors, async (data) =>
    symmetricDecrypt({ key: (await auth.$context).secretConfig, data }),
  );
  const known = (user: { id: string; email: string } | null | undefined) =>
    user ? { id: user.id as UserId, email: user.email } : undefined;
  return {
    ...{ db, trustedOrigins, handler: auth.handler },
    deferredWrites: options.deferredWrites ?? new DeferredWrites(unhandled),
    session: (headers) => liveSession(auth, db, headers),
    async userByEmail(email) {
      const { internalAdapter } = await auth.$context;
      return known((await internalAdapter.findUserByEmail(email.toLowerCase()))?.user);
    },
    async challengedUser(headers) {
      const { internalAdapter, createAuthCookie } = await auth.$context;
      const { name } = createAuthCookie("two_factor");
      // Parsed as the library does it: of two cookies with one name, both must mean the same.
      const identifier = parseCookies(headers.get("cookie") ?? "")
        .get(name)
        ?.split(".")[0];
      const challenge = identifier && (await internalAdapter.findVerificationValue(identifier));
      return challenge ? known(await internalAdapter.findUserById(challenge.value)) : undefined;
    },
    isReplay: (userId, code) => secondFactors.isReplay(userId, code),
    async proves({ userId, hasSecondFactor }, { password, code }) {
      if (typeof password !== "string" || password.length > PASSWORD_LENGTH_MAX) return "wrong";
      if (!(await verifyPassword(auth, userId, password))) return "wrong";
      return hasSecondFactor ? secondFactors.verify(userId, code) : "right";
    },
  };
}

function configure(options: IdentityOptions) {
  const cookies = cookieNames(options.trustedOrigins);
  const replaced = options.replacedSecrets ?? [];
  return betterAuth({
    appName: "Millrace",
    baseURL: options.apiUrl,
    basePath: AUTH_BASE_PATH,
    secrets: secretVersions(options.secret, replaced),
    // Opens what was sealed before versions were written into it.
    secret: replaced.at(-1) ?? options.secret,
    trustedOrigins: [...options.trustedOrigins],
    database: prismaAdapter(options.db.identityStore, { provider: "postgresql" }),
    emailAndPassword: {
      enabled: true,
      // Accounts are made by operators; a public sign-up is a decision that nobody has taken.
      disableSignUp: true,
      minPasswordLength: PASSWORD_LENGTH_MIN,
      maxPasswordLength: PASSWORD_LENGTH_MAX,
    },
    // Seven days are the end of a session however much it is used, so nothing prolongs it.
    session: {
      expiresIn: SESSION_SECONDS,
      disableSessionRefresh: true,
      additionalFields: {
        authenticatedAt: { type: "date", required: false, input: false },
        ssoOrganizationId: { type: "string", required: false, input: false },
      },
    },
    databaseHooks: { session: { create: { before: keepProof } } },
    plugins: [
      twoFactor({ issuer: "Millrace", twoFactorCookieMaxAge: SECOND_FACTOR_SECONDS }),
      ssoSessions(),
    ],
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
      customRules: {
        [SIGN_IN_PATH]: { window: 60, max: SIGN_IN_PER_MINUTE },
        [CHANGE_PASSWORD_PATH]: { window: 60, max: PASSWORD_CHANGES_PER_MINUTE },
      },
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
 * A change of the password replaces the session. It asks for no code, so the new session is as old a proof of
 * identity as the one before.
 */
async function keepProof(created: object, ctx: HookContext) {
  const replaced: { authenticatedAt?: unknown } | undefined = ctx?.context.session?.session;
  if (ctx?.path !== CHANGE_PASSWORD_PATH || !replaced?.authenticatedAt) return;
  return { data: { ...created, authenticatedAt: replaced.authenticatedAt } };
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
