import { newInvitationToken } from "@millrace/auth";
import type { Transaction } from "@millrace/db";
import {
  DomainError,
  INVITATIONS_PENDING_MAX,
  type Invitation,
  type OrganizationId,
  type Principal,
  type Role,
} from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";
import { writeInvitationMail } from "../outgoing-mail/write-invitation-mail.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { assertRoomForMember } from "./room-for-member.ts";

const DAY_MS = 24 * 3_600_000;

export interface CreateInvitationInput {
  readonly email: string;
  readonly role: Role;
  readonly days: number;
}

/**
 * Invites the person with this address. The token of the link is in the answer and, sealed, in the mail outbox. An earlier
 * invitation of the same address is revoked. Throws `forbidden` for a role above the caller's and
 * for a key that is limited by address or expiry, `already_member`, `limit_exceeded`.
 */
export async function createInvitation(
  core: Core,
  principal: Principal,
  { email, role, days }: CreateInvitationInput,
): Promise<{ invitation: Invitation; token: string }> {
  const { organizationId } = principal;
  const now = core.clock.now();
  assertCovers(principal, role, "invite somebody");
  assertUnlimited(principal, "invite somebody");
  const { token, hash } = newInvitationToken();
  const invitedBy = await changerBehind(core, principal);
  const invitation = await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    await assertNoMember(tx, organizationId, email);
    for (const earlier of await tx.invitations.pendingFor(organizationId, email, now)) {
      assertCovers(principal, earlier.role, "revoke an invitation");
      await tx.invitations.revoke(organizationId, earlier.id, now);
    }
    const pending = await tx.invitations.countPending(organizationId, now);
    if (pending >= INVITATIONS_PENDING_MAX) throw tooMany();
    await assertRoomForMember(tx, organizationId, pending);
    const made = await tx.invitations.create({
      ...{ organizationId, email, role, invitedBy, tokenHash: hash },
      expiresAt: new Date(now.getTime() + days * DAY_MS),
    });
    await writeInvitationMail(core, tx, made, token);
    return made;
  });
  return { invitation, token };
}

async function assertNoMember(
  tx: Transaction,
  organizationId: OrganizationId,
  email: string,
): Promise<void> {
  const user = await tx.organizations.findUserByEmail(email);
  const member = user && (await tx.members.ofUser(organizationId, user.id));
  if (!member) return;
  throw new DomainError("already_member", `${email} is a member of the organization already.`, {
    remedy: "Change the member's role instead.",
    existingId: member.id,
  });
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `An organization has at most ${INVITATIONS_PENDING_MAX} pending invitations.`,
    { remedy: "Revoke invitations that nobody will accept." },
  );
}
