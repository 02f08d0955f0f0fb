/**
 * The end of a sign-in through an organization's identity provider. The provider speaks for this organization
 * alone, whoever runs it: it opens sessions that are good here and nowhere else, and it never takes over the account of
 * somebody who is no member. There is no principal yet, so the audit log's lines are written here.
 */
import { createHash } from "node:crypto";
import {
  type Identity,
  SSO_ATTEMPT_SECONDS,
  type SsoAttempt,
  type VouchedPerson,
} from "@millrace/auth";
import type { Transaction } from "@millrace/db";
import {
  auditText,
  type Changer,
  DomainError,
  type Invitation,
  type Member,
  type SsoConnection,
  SsoRefused,
  type UserId,
} from "@millrace/domain";
import type { CoreParts } from "../core.ts";
import { mayStillInvite } from "../invitation/accept-invitation.ts";
import { assertRoomForMember } from "../invitation/room-for-member.ts";
import { providerOf } from "./provider-access.ts";

/** Refusals that the audit log keeps per hour of one network, so that none hides the others', and of an organization. */
const REFUSALS_OF_NETWORK_PER_HOUR_MAX = 50;
const REFUSALS_PER_HOUR_MAX = 1_000;
const HOUR_MS = 3_600_000;

export interface SsoTools {
  readonly parts: CoreParts;
  readonly identity: Pick<Identity, "createUser" | "openSsoSession">;
}

export interface FinishSsoInput {
  /** Of the redirect URI that the browser came back to. */
  readonly connectionId: string;
  readonly attempt: SsoAttempt;
  /** The query that the provider sent the browser back with. */
  readonly query: string;
  /** Who is signed in, for an attempt that belongs to a session. */
  readonly session:
    | { readonly id: string; readonly userId: UserId; readonly user: { readonly email: string } }
    | undefined;
  /** Of the request. */
  readonly headers: Headers;
  readonly requestId: string;
  readonly clientAddress: string;
  /** What limits count as one address. */
  readonly clientNetwork: string;
}

/**
 * Signs a person in, or notes that they proved their identity again; somebody new becomes a member. Answers with the cookies
 * of a new session. Throws `SsoRefused`, after a line in the audit log.
 */
export async function finishSso(tools: SsoTools, input: FinishSsoInput): Promise<string[]> {
  const { attempt } = input;
  await assertFirstUse(tools.parts, attempt);
  let email = input.session?.user.email ?? "";
  try {
    const { connection, access } = await providerOf(tools.parts, attempt.organizationId);
    if (connection.id !== attempt.connectionId) throw expired();
    if (input.connectionId !== connection.id) throw mixedUp();
    const { identityProviders } = tools.parts;
    const person = await identityProviders.finish(access, attempt.challenge, input.query);
    if (attempt.sessionId === undefined) email = person.email;
    if (!person.domains.every((domain) => connection.domains.includes(domain))) {
      const message = `${person.email} has a domain that is not allowed here.`;
      throw new SsoRefused("domain_not_allowed", message);
    }
    if (attempt.sessionId === undefined) return await signIn(tools, connection, person, input);
    await confirm(tools, connection, person, input);
    return [];
  } catch (error) {
    const refused = refusalOf(error);
    await logRefusal(tools.parts, input, email, refused);
    throw refused;
  }
}

/** An attempt is in the browser's hands: without this, one that was sealed once could fill the audit log. */
async function assertFirstUse(
  { db }: CoreParts,
  { challenge: { state } }: SsoAttempt,
): Promise<void> {
  const key = `sso-state|${createHash("sha256").update(state).digest("base64url")}`;
  const uses = await db.rateLimits.count(key, SSO_ATTEMPT_SECONDS * 1_000, Date.now());
  if (uses > 1) throw expired();
}

async function signIn(
  { parts, identity }: SsoTools,
  connection: SsoConnection,
  person: VouchedPerson,
  input: FinishSsoInput,
): Promise<string[]> {
  const { organizationId } = connection;
  return parts.db.tenant(organizationId).transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    await assertUnchanged(tx, connection);
    await tx.organizations.lockAddress(person.email);
    const linked = await tx.ssoConnections.userOf(connection.id, person.subject);
    const known = linked ?? (await memberOf(tx, connection, person));
    const isMember = known && (await tx.members.ofUser(organizationId, known)) !== undefined;
    const invitation = isMember
      ? undefined
      : await acceptedInvitation(tx, connection, person, parts.clock.now());
    // Whoever was removed stays out until somebody invites them again.
    if (known && !isMember && !invitation) throw removed(person.email);
    const userId = known ?? (await identity.createUser(newUser(person), tx.identityStore));
    if (linked === undefined) await tx.ssoConnections.link(connection.id, person.subject, userId);
    if (!isMember) {
      await assertRoomForMember(tx, organizationId, 0);
      const role = invitation?.role ?? connection.defaultRole;
      await tx.organizations.putMember(organizationId, userId, role);
    }
    const member = await tx.members.ofUser(organizationId, userId);
    if (!member) throw new Error("whoever signs in is a member");
    const line = lineOf(input, actorOf(userId, member.email));
    if (!isMember) await tx.audit.append({ ...line, ...joinedBy(invitation, member) });
    await tx.audit.append({ ...line, method: "session.create", targetId: userId });
    const { authenticatedAt } = person;
    const session = { userId, organizationId, authenticatedAt, headers: input.headers };
    return identity.openSsoSession(session, tx.identityStore);
  });
}

/** Another request may have removed or replaced the connection while the provider was asked. */
async function assertUnchanged(
  tx: Transaction,
  { organizationId, id, updatedAt }: SsoConnection,
): Promise<void> {
  const now = (await tx.ssoConnections.find(organizationId))?.connection;
  if (now?.id !== id || now.updatedAt.getTime() !== updatedAt.getTime()) throw expired();
}

function joinedBy(invitation: Invitation | undefined, { id, email, role }: Member) {
  return invitation
    ? { method: "invitation.accept", targetId: invitation.id, after: { role } }
    : { method: "member.create", targetId: id, after: { email, role } };
}

/** The pending invitation of this address, which is accepted. */
async function acceptedInvitation(
  tx: Transaction,
  { organizationId }: SsoConnection,
  { email }: VouchedPerson,
  now: Date,
): Promise<Invitation | undefined> {
  for (const invitation of await tx.invitations.pendingFor(organizationId, email, now)) {
    if (!(await mayStillInvite(tx, invitation, now))) continue;
    await tx.invitations.accept(organizationId, invitation.id, now);
    return invitation;
  }
  return undefined;
}

/** The member with this address, to be linked. An account of somebody who is no member is none of the provider's. */
async function memberOf(
  tx: Transaction,
  { id, organizationId }: SsoConnection,
  { email }: VouchedPerson,
): Promise<UserId | undefined> {
  const account = await tx.organizations.findUserByEmail(email);
  if (!account) return undefined;
  if (!(await tx.members.ofUser(organizationId, account.id))) {
    throw new SsoRefused("account_exists", `${email} has an account that is no member.`);
  }
  // An address may be given to somebody else; the subject is never (OpenID Connect Core 1.0, 5.7).
  if (await tx.ssoConnections.hasLink(id, account.id)) {
    throw new SsoRefused("account_exists", `${email} belongs to another person at the provider.`);
  }
  return account.id;
}

async function confirm(
  { parts }: SsoTools,
  connection: SsoConnection,
  { subject }: VouchedPerson,
  input: FinishSsoInput,
): Promise<void> {
  const { session, attempt } = input;
  const { organizationId } = connection;
  await parts.db.tenant(organizationId).transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    await assertUnchanged(tx, connection);
    if (!session || session.id !== attempt.sessionId) throw expired();
    const { userId, user } = session;
    if ((await tx.ssoConnections.userOf(connection.id, subject)) !== userId) throw otherPerson();
    await tx.sessions.confirm(attempt.sessionId, parts.clock.now());
    const line = lineOf(input, actorOf(userId, user.email));
    await tx.audit.append({ ...line, method: "session.confirm", targetId: userId });
  });
}

async function logRefusal(
  { db }: CoreParts,
  input: FinishSsoInput,
  email: string,
  { code, refusal }: SsoRefused,
): Promise<void> {
  const { organizationId, sessionId } = input.attempt;
  const key = `audit|sso|${organizationId}`;
  const now = Date.now();
  const own = await db.rateLimits.count(`${key}|${input.clientNetwork}`, HOUR_MS, now);
  if (own > REFUSALS_OF_NETWORK_PER_HOUR_MAX) return;
  if ((await db.rateLimits.count(key, HOUR_MS, now)) > REFUSALS_PER_HOUR_MAX) return;
  const userId = sessionId && input.session?.userId;
  await db.tenant(organizationId).audit.append({
    ...lineOf(input, actorOf(userId, email)),
    method: sessionId === undefined ? "session.create" : "session.confirm",
    ...{ result: "failure", errorCode: code, targetId: userId },
    request: { refusal },
  });
}

/** Of a success, with nothing but who did it. */
function lineOf({ attempt, requestId, clientAddress }: FinishSsoInput, actor: Changer) {
  const { organizationId } = attempt;
  const empty = { request: undefined, before: undefined, after: undefined, errorCode: undefined };
  const origin = { organizationId, actor, authMethod: "sso", requestId, clientAddress } as const;
  return { ...origin, ...empty, result: "success" } as const;
}

/** Who is not known yet has no id. */
function actorOf(userId: UserId | undefined, email: string): Changer {
  return { kind: "user", id: userId ?? "unknown", name: auditText(email) };
}

function newUser({ email, name }: VouchedPerson) {
  return { email, name, password: undefined };
}

function refusalOf(error: unknown): SsoRefused {
  if (error instanceof SsoRefused) return error;
  if (error instanceof DomainError && error.code === "limit_exceeded") {
    return new SsoRefused("limit_exceeded", error.message, { cause: error });
  }
  throw error;
}

function expired(): SsoRefused {
  return new SsoRefused("expired", "The sign-in has expired, or was started in another browser.");
}

function otherPerson(): SsoRefused {
  return new SsoRefused("other_person", "Another person is signed in than the one who confirmed.");
}

function mixedUp(): SsoRefused {
  return new SsoRefused("provider", "The answer came to another connection's redirect URI.");
}

function removed(email: string): SsoRefused {
  return new SsoRefused("removed", `${email} was removed from the organization.`);
}
