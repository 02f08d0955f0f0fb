/**
 * The two steps of somebody who has the link of an invitation, and may be unknown until now: look at it, and
 * accept it. There is no principal yet, so that accepting writes its own line of the audit log.
 */
import { type Identity, invitationTokenHash } from "@millrace/auth";
import type { Database, Transaction } from "@millrace/db";
import {
  type ApiKeyId,
  type Clock,
  covers,
  DomainError,
  type Grant,
  grants,
  type Invitation,
  isPending,
  type OrganizationId,
  permissionsOf,
  type Role,
  type User,
  type UserId,
} from "@millrace/domain";
import { assertRoomForMember } from "./room-for-member.ts";

export interface InvitationTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly identity: Pick<Identity, "createUser">;
}

interface Opened {
  readonly invitation: Invitation;
  readonly organizationName: string;
  /** Who can sign in with its address already. */
  readonly account: User | undefined;
}

export interface AcceptInvitationInput {
  readonly token: string;
  /** Who is signed in, if anybody is. */
  readonly userId: UserId | undefined;
  /** The account to create where the invited address has none. */
  readonly newAccount: { readonly name: string; readonly password: string } | undefined;
  readonly requestId: string;
  readonly clientAddress: string;
}

/** What a link invites to. Throws `invitation_invalid` for a token that is unknown, used, revoked or expired. */
export async function openInvitation(
  { db, clock }: Pick<InvitationTools, "db" | "clock">,
  token: string,
): Promise<Opened> {
  const hash = invitationTokenHash(token);
  const found = hash && (await db.signIn.findByToken(hash));
  if (!found) throw invalid();
  const tenant = db.tenant(found.organizationId);
  const invitation = await tenant.invitations.get(found.organizationId, found.id);
  if (!invitation || !isPending(invitation, clock.now())) throw invalid();
  const account = await tenant.organizations.findUserByEmail(invitation.email);
  return { invitation, organizationName: found.organizationName, account };
}

/**
 * Makes the person a member. Somebody with an account has to be signed in with it; for others the account is
 * created, in the same transaction as the membership: an acceptance that is refused leaves no account.
 * Throws `invitation_invalid`; `account_exists` where the signed-in user is not the invited one;
 * `validation_failed` where the account to create is missing; `already_member`; `limit_exceeded`.
 */
export async function acceptInvitation(
  tools: InvitationTools,
  input: AcceptInvitationInput,
): Promise<OrganizationId> {
  const opened = await openInvitation(tools, input.token);
  const { organizationId, id } = opened.invitation;
  const now = tools.clock.now();
  await tools.db.tenant(organizationId).transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const invitation = await tx.invitations.hold(organizationId, id);
    if (!invitation || !isPending(invitation, now)) throw invalid();
    if (!(await mayStillInvite(tx, invitation, now))) throw invalid();
    await assertRoomForMember(tx, organizationId, 0);
    const { userId, isNew } = await accountOf(tools, tx, invitation, input);
    await assertNoMember(tx, invitation, userId);
    await tx.organizations.putMember(organizationId, userId, invitation.role);
    await tx.invitations.accept(organizationId, id, now);
    await tx.audit.append({
      organizationId,
      actor: { kind: "user", id: userId, name: invitation.email },
      authMethod: isNew ? "invitation" : "session",
      ...{ requestId: input.requestId, clientAddress: input.clientAddress },
      ...{ method: "invitation.accept", targetId: id, result: "success", errorCode: undefined },
      ...{ request: undefined, before: undefined, after: { role: invitation.role } },
    });
  });
  return organizationId;
}

async function accountOf(
  { identity }: InvitationTools,
  tx: Transaction,
  { email }: Invitation,
  { userId, newAccount }: AcceptInvitationInput,
): Promise<{ userId: UserId; isNew: boolean }> {
  // Another organization's invitation of the same address may be accepted at the same time.
  await tx.organizations.lockAddress(email);
  const account = await tx.organizations.findUserByEmail(email);
  if (account) {
    if (account.id === userId) return { userId, isNew: false };
    throw new DomainError("account_exists", `This invitation is for ${email}.`, {
      remedy: `Sign in as ${email}, then open the link again.`,
    });
  }
  if (!newAccount) {
    throw new DomainError("validation_failed", `There is no account for ${email} yet.`, {
      remedy: "Send a name and a password to create it.",
    });
  }
  const created = await identity.createUser({ email, ...newAccount }, tx.identityStore);
  return { userId: created, isNew: true };
}

async function assertNoMember(tx: Transaction, invitation: Invitation, userId: UserId) {
  const { organizationId, email } = invitation;
  if ((await tx.members.ofUser(organizationId, userId)) === undefined) return;
  throw new DomainError("already_member", `${email} is a member of the organization already.`);
}

/** An invitation ends with the rights of whoever sent it: with the membership, the key, or the role. */
export async function mayStillInvite(
  tx: Transaction,
  invitation: Invitation,
  now: Date,
): Promise<boolean> {
  const { organizationId, invitedBy, role } = invitation;
  if (invitedBy.kind === "user") {
    const inviter = await tx.members.ofUser(organizationId, invitedBy.id as UserId);
    return inviter !== undefined && mayInvite(inviter, role);
  }
  const key = await tx.apiKeys.get(organizationId, invitedBy.id as ApiKeyId);
  if (!key || key.revokedAt || (key.expiresAt && key.expiresAt <= now)) return false;
  if (key.serviceAccountId) {
    const account = await tx.serviceAccounts.get(organizationId, key.serviceAccountId);
    if (!account || account.disabledAt) return false;
  }
  return mayInvite(key, role);
}

function mayInvite(inviter: Grant, invited: Role): boolean {
  if (!grants(inviter, "member:write") || !covers(inviter.role, invited)) return false;
  return [...permissionsOf(invited)].every((permission) => grants(inviter, permission));
}

function invalid(): DomainError {
  return new DomainError(
    "invitation_invalid",
    "This invitation does not exist, was used or revoked, or has expired.",
    { remedy: "Ask for a new invitation." },
  );
}
