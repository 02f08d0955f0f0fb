import { type InvitationId, notFound, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";
import { requireInvitation } from "./require-invitation.ts";

/**
 * Revokes an invitation: its link no longer works. Throws `not_found`, `forbidden` where its role is above
 * the caller's.
 */
export async function deleteInvitation(
  core: Core,
  principal: Principal,
  id: InvitationId,
): Promise<void> {
  const now = core.clock.now();
  await core.db.transaction(async (tx) => {
    const invitation = await requireInvitation(tx, principal, id, now);
    assertCovers(principal, invitation.role, "revoke an invitation");
    const revoked = await tx.invitations.revoke(principal.organizationId, id, now);
    if (!revoked) throw notFound("invitation", id);
  });
}
