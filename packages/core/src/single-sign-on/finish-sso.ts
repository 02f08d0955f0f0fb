/**
 * The end of a sign-in through an organization's identity provider. The provider speaks for this organization
 * alone, whoever runs it: it opens sessions that are good here and nowhere else, and it never takes over the account of
 * somebody who is no member. There is no principal yet, so the audit log's lines are written here.
 */
import type { Identity, SsoAttempt, VouchedPerson } from "@millrace/auth";
import type { Transaction } from "@millrace/db";
import {
  auditText,
  type Changer,
  DomainError,
  mailDomainOf,
  type OrganizationId,
  type Role,
  type SsoConnection,
  SsoRefused,
  type UserId,
} from "@millrace/domain";
import type { CoreParts } from "../core.ts";
import { mayStillInvite } from "../invitation/accept-invitation.ts";
import { assertRoomForMember } from "../invitation/room-for-member.ts";
import { providerOf } from "./provider-access.ts";

/** Refusals of one organization that the audit log keeps per minute. */
const REFUSALS_PER_MINUTE_MAX = 30;
const MINUTE_MS = 60_000;

export interface SsoTools {
  readonly parts: CoreParts;
  readonly identity: Pick<Identity, "createUser">;
}

export interface FinishSsoInput {
  /** Of the redirect URI that the browser came back to. */
  readonly connectionId: string;
  readonly attempt: SsoAttempt;
  /** The query that the provider sent the browser back with. */
  readonly query: string;
  /** Who is signed in, for an attempt that belongs to a session. */
  readonly session: { readonly id: string; readonly userId: UserId } | undefined;
  readonly requestId: string;
  readonly clientAddress: string;
}

/**
 * Who has signed in, or proved their identity again; somebody new becomes a member. Throws `SsoRefused`, after a line
 * in the audit log.
 */
export async function finishSso(tools: SsoTools, input: FinishSsoInput): Promise<UserId> {
  const { attempt } = input;
  let email = "";
  try {
    const { connection, access } = await providerOf(tools.parts, attempt.organizationId);
    if (connection.id !== attempt.connectionId) throw expired();
    if (input.connectionId !== connection.id) throw mixedUp();
    const { identityProviders } = tools.parts;
    const person = await identityProviders.finish(access, attempt.challenge, input.query);
    email = person.email;
    if (!connection.domains.includes(mailDomainOf(email) ?? "")) {
      throw new SsoRefused("domain_not_allowed", `${email} has a domain that is not allowed here.`);
    }
    return attempt.sessionId === undefined
      ? await signIn(tools, connection, person, input)
      : await confirm(tools, connection, person, input);
  } catch (error) {
    const refused = refusalOf(error);
    await logRefusal(tools.parts, input, email, refused);
    throw refused;
  }
}

async function signIn(
  { parts, identity }: SsoTools,
  connection: SsoConnection,
  person: VouchedPerson,
  input: FinishSsoInput,
): Promise<UserId> {
  const { organizationId } = connection;
  const now = parts.clock.now();
  return parts.db.tenant(organizationId).transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    await tx.organizations.lockAddress(person.email);
    const linked = await tx.ssoConnections.userOf(connection.id, person.subject);
    const known = linked ?? (await memberOf(tx, connection, person));
    const member = known && (await tx.members.ofUser(organizationId, known));
    const invited = member ? undefined : await acceptedRole(tx, connection, person, now);
    // Whoever was removed stays out until somebody invites them again.
    if (known && !member && invited === undefined) throw removed(person.email);
    const userId = known ?? (await identity.createUser(newUser(person), tx.identityStore));
    if (linked === undefined) await tx.ssoConnections.link(connection.id, person.subject, userId);
    const role = invited ?? connection.defaultRole;
    if (!member) {
      await assertRoomForMember(tx, organizationId, 0);
      await tx.organizations.putMember(organizationId, userId, role);
    }
    await tx.audit.append({
      ...lineOf(input, actorOf(userId, person.email)),
      ...{ method: "session.create", result: "success", errorCode: undefined, targetId: userId },
      after: member ? undefined : { role },
    });
    return userId;
  });
}

/** The role of a pending invitation of this address, which is accepted. */
async function acceptedRole(
  tx: Transaction,
  { organizationId }: SsoConnection,
  { email }: VouchedPerson,
  now: Date,
): Promise<Role | undefined> {
  for (const invitation of await tx.invitations.pendingFor(organizationId, email, now)) {
    if (!(await mayStillInvite(tx, invitation, now))) continue;
    await tx.invitations.accept(organizationId, invitation.id, now);
    return invitation.role;
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
  { subject, email }: VouchedPerson,
  input: FinishSsoInput,
): Promise<UserId> {
  const { session, attempt } = input;
  const { organizationId } = connection;
  return parts.db.tenant(organizationId).transaction(async (tx) => {
    const userId = await tx.ssoConnections.userOf(connection.id, subject);
    if (!session || session.id !== attempt.sessionId || session.userId !== userId) throw expired();
    await tx.sessions.confirm(attempt.sessionId, parts.clock.now());
    await tx.audit.append({
      ...lineOf(input, actorOf(userId, email)),
      ...{ method: "session.confirm", result: "success", errorCode: undefined, targetId: userId },
      after: undefined,
    });
    return userId;
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
  if ((await db.rateLimits.count(key, MINUTE_MS, Date.now())) > REFUSALS_PER_MINUTE_MAX) return;
  const userId = sessionId && input.session?.userId;
  await db.tenant(organizationId).audit.append({
    ...lineOf(input, actorOf(userId, email)),
    method: sessionId === undefined ? "session.create" : "session.confirm",
    ...{ result: "failure", errorCode: code, targetId: userId, after: undefined },
    request: { refusal },
  });
}

function lineOf({ attempt, requestId, clientAddress }: FinishSsoInput, actor: Changer) {
  const organizationId: OrganizationId = attempt.organizationId;
  const empty = { request: undefined, before: undefined };
  return { organizationId, actor, authMethod: "sso", requestId, clientAddress, ...empty } as const;
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
  return new SsoRefused("expired", "The sign-in was begun too long ago or elsewhere.");
}

function mixedUp(): SsoRefused {
  return new SsoRefused("provider", "The answer came to another connection's redirect URI.");
}

function removed(email: string): SsoRefused {
  return new SsoRefused("removed", `${email} was removed from the organization.`);
}
