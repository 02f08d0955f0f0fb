/**
 * What people ask of their own accounts: sign-in, sign-out, passwords and second factors, which the identity
 * library answers, and the proof of identity that we ask for before something is destroyed or granted. Each
 * of them is in the audit log.
 */
import type { Database } from "@millrace/db";
import {
  type ErrorCode,
  type OrganizationId,
  type SessionId,
  STEP_UP_MINUTES,
  type UserId,
} from "@millrace/domain";
import type { DeferredWrites } from "./deferred-writes.ts";
import { type IdentityEvent, recordIdentityEvent } from "./identity-audit.ts";
import type { Proof } from "./second-factor.ts";
import { SIGN_IN_PATH } from "./sign-in-limits.ts";

/** Ours: proves once more who is signed in. */
export const CONFIRM_PATH = "/confirm";
export const CHANGE_PASSWORD_PATH = "/change-password";
const TOTP_PATH = "/two-factor/verify-totp";
const RECOVERY_CODE_PATH = "/two-factor/verify-backup-code";
const DISABLE_PATH = "/two-factor/disable";
const NEW_RECOVERY_CODES_PATH = "/two-factor/generate-backup-codes";
/** The library asks for the password here, which must not be enough where there is a second factor. */
const PROTECTED_BY_SECOND_FACTOR: ReadonlySet<string> = new Set([
  CHANGE_PASSWORD_PATH,
  DISABLE_PATH,
  NEW_RECOVERY_CODES_PATH,
]);

/** What a session by single sign-on may ask for: it belongs to one organization, the account to the person. */
const OPEN_TO_SSO: ReadonlySet<string> = new Set(["/sign-out", "/get-session"]);

/** Names in the audit log; what is not here changes nothing. */
const METHODS: Readonly<Record<string, string>> = {
  [SIGN_IN_PATH]: "session.create",
  [TOTP_PATH]: "session.create",
  [RECOVERY_CODE_PATH]: "session.create",
  [CONFIRM_PATH]: "session.confirm",
  "/sign-out": "session.delete",
  [CHANGE_PASSWORD_PATH]: "account.changePassword",
  "/two-factor/enable": "account.setUpSecondFactor",
  [DISABLE_PATH]: "account.disableSecondFactor",
  [NEW_RECOVERY_CODES_PATH]: "account.newRecoveryCodes",
};
const SECOND_FACTORS: Readonly<Record<string, string>> = {
  [TOTP_PATH]: "totp",
  [RECOVERY_CODE_PATH]: "recovery_code",
};

/** Tries to confirm per user and minute: a stolen cookie is no way to guess the password. */
const CONFIRMATIONS_PER_MINUTE = 10;
const MINUTE_MS = 60_000;
/** The code of a refusal that a proof of identity lifts, as REST and tRPC have it. */
const PROOF_NEEDED: ErrorCode = "reauthentication_required";

type User = IdentityEvent["user"];

export interface LiveSession {
  readonly id: SessionId;
  readonly userId: UserId;
  readonly user: { readonly id: UserId; readonly email: string };
  readonly hasSecondFactor: boolean;
  /** When the person last proved who they are. */
  readonly authenticatedAt: Date;
  /** Signed in through this organization's identity provider: the session is good for it alone. */
  readonly ssoOrganizationId: OrganizationId | undefined;
}

export interface RequestOrigin {
  readonly requestId: string;
  readonly clientAddress: string;
}

/** What of the identity library and of our own database answers a request. */
export interface IdentityParts {
  readonly db: Database;
  readonly trustedOrigins: readonly string[];
  handler(request: Request): Promise<Response>;
  session(headers: Headers): Promise<LiveSession | undefined>;
  userByEmail(email: string): Promise<User | undefined>;
  /** Who gave the right password and still owes a second factor. */
  challengedUser(headers: Headers): Promise<User | undefined>;
  /** Uses up a right code of the second factor; true where it was used before. */
  isReplay(userId: UserId, code: unknown): Promise<boolean>;
  /** Whether password and, for somebody who has one, second factor are right. */
  proves(session: LiveSession, sent: Sent): Promise<Proof>;
  readonly deferredWrites: DeferredWrites;
}

export type Sent = Readonly<Record<string, unknown>>;

export async function answerIdentityRequest(
  parts: IdentityParts,
  path: string,
  request: Request,
  origin: RequestOrigin,
): Promise<Response> {
  // The library reads forms too, whose fields would not be in the audit log.
  if (!(await isJson(request))) return failure(415, "Send JSON as application/json.");
  const sent = await sentIn(request);
  // Trusted browsers would skip the second factor for a month.
  if (sent.trustDevice) return failure(400, "trustDevice is not supported.");
  // A session that was idle for too long ends here, before the library takes it.
  const session = path === SIGN_IN_PATH ? undefined : await parts.session(request.headers);
  const user = session?.user ?? (await strangerIn(parts, path, request.headers, sent));
  const response =
    session?.ssoOrganizationId !== undefined && !OPEN_TO_SSO.has(path)
      ? failure(403, "You signed in with single sign-on. Your identity provider manages this.")
      : path === CONFIRM_PATH
        ? await confirm(parts, session, request, sent)
        : ((await refusal(parts, path, { sent, session, user })) ??
          (await parts.handler(
            path === CHANGE_PASSWORD_PATH && request.method === "POST"
              ? endingOthers(request, sent)
              : request,
          )));
  const method = METHODS[path];
  if (user === undefined || method === undefined) return response;
  if (session && path === TOTP_PATH && response.ok)
    await forgetOtherProofs(parts, session, response);
  const factor = SECOND_FACTORS[path];
  const outcome = await outcomeOf(response);
  const record = () =>
    recordIdentityEvent(parts.db, {
      ...{ ...origin, ...outcome, user },
      // With a session, the first right code turns the second factor on.
      method: session && path === TOTP_PATH ? "account.enableSecondFactor" : method,
      authMethod: session ? "session" : "password",
      request: factor === undefined ? undefined : { second_factor: factor },
    });
  // For an address without an account nothing is written: the time of the answer must not tell.
  if (path === SIGN_IN_PATH && !response.ok) await parts.deferredWrites.start(record);
  else await record();
  return response;
}

/**
 * The second factor is on: what other sessions proved without it counts no longer. The library has replaced the
 * session that turned it on.
 */
async function forgetOtherProofs(
  { db, session }: IdentityParts,
  { userId }: LiveSession,
  response: Response,
): Promise<void> {
  const cookie = response.headers.getSetCookie().map((each) => each.split(";")[0]);
  const own = await session(new Headers({ cookie: cookie.join("; ") }));
  await db.signIn.forgetProofs(userId, own?.id);
}

interface Asking {
  readonly sent: Sent;
  readonly session: LiveSession | undefined;
  readonly user: User | undefined;
}

/** What the library would accept although it must not. */
async function refusal(
  { isReplay }: IdentityParts,
  path: string,
  { sent, session, user }: Asking,
): Promise<Response | undefined> {
  if (session?.hasSecondFactor && PROTECTED_BY_SECOND_FACTOR.has(path)) {
    const provenMs = Date.now() - session.authenticatedAt.getTime();
    if (provenMs <= STEP_UP_MINUTES * MINUTE_MS) return undefined;
    return failure(403, "Confirm your identity to do this.", PROOF_NEEDED);
  }
  if (SECOND_FACTORS[path] === undefined) return undefined;
  // With a session the library counts no wrong codes.
  if (session && path === RECOVERY_CODE_PATH) {
    return failure(400, "Recovery codes are for signing in. You are signed in.");
  }
  if (session?.hasSecondFactor) return failure(400, "The second factor is on already.");
  if (!user) return failure(401, "Sign in with your password first.");
  const isUsed = path === TOTP_PATH && (await isReplay(user.id, sent.code));
  return isUsed ? failure(401, "This code was used. Wait for the next one.") : undefined;
}

/** A change of the password ends every other session: whoever knew the old one is out. */
function endingOthers(request: Request, sent: Sent): Request {
  const body = JSON.stringify({ ...sent, revokeOtherSessions: true });
  const headers = new Headers(request.headers);
  headers.delete("content-length");
  return new Request(request.url, { method: "POST", headers, signal: request.signal, body });
}

async function strangerIn(parts: IdentityParts, path: string, headers: Headers, sent: Sent) {
  if (path !== SIGN_IN_PATH) return parts.challengedUser(headers);
  return typeof sent.email === "string" ? parts.userByEmail(sent.email) : undefined;
}

async function confirm(
  parts: IdentityParts,
  session: LiveSession | undefined,
  request: Request,
  sent: Sent,
): Promise<Response> {
  const { db, trustedOrigins } = parts;
  const page = request.headers.get("origin");
  if (request.method !== "POST") return failure(405, "Use POST.");
  if (page !== null && !trustedOrigins.includes(page)) return failure(403, "Invalid origin");
  if (!session) return failure(401, "You are not signed in.");
  const key = `confirm|${session.userId}`;
  const tries = await db.rateLimits.count(key, MINUTE_MS, Date.now());
  if (tries > CONFIRMATIONS_PER_MINUTE) return failure(429, "Too many attempts. Wait a minute.");
  const proof = await parts.proves(session, sent);
  if (proof === "locked") return failure(429, "Too many wrong codes. Wait 15 minutes.");
  if (proof === "wrong") return failure(400, "Wrong password or code.");
  await db.signIn.confirmSession(session.id, new Date());
  return Response.json({ status: true });
}

async function outcomeOf(response: Response): Promise<Pick<IdentityEvent, "result" | "errorCode">> {
  const answer = await sentIn(response);
  if (!response.ok) {
    if (answer.code === PROOF_NEEDED) return { result: "failure", errorCode: PROOF_NEEDED };
    const errorCode: ErrorCode = response.status === 429 ? "rate_limited" : "unauthenticated";
    return { result: "failure", errorCode };
  }
  return { result: answer.twoFactorRedirect ? "started" : "success", errorCode: undefined };
}

/** The fields of a JSON object; none where there is no such thing. */
async function sentIn(message: Request | Response): Promise<Sent> {
  try {
    const value: unknown = JSON.parse(await message.clone().text());
    return typeof value === "object" && value !== null ? (value as Sent) : {};
  } catch {
    return {};
  }
}

/** True also without a body. */
async function isJson(request: Request): Promise<boolean> {
  if (request.method !== "POST") return true;
  const type = request.headers.get("content-type");
  if (type === null) return (await request.clone().text()) === "";
  return type.split(";")[0]?.trim().toLowerCase() === "application/json";
}

function failure(status: number, message: string, code?: ErrorCode): Response {
  return Response.json({ message, ...(code && { code }) }, { status });
}
