import type { Invitation as InvitationShape } from "@millrace/contract";
import type { Invitation } from "@millrace/domain";

export function presentInvitation(invitation: Invitation): InvitationShape {
  return {
    id: invitation.id,
    email: invitation.email,
    role: invitation.role,
    invited_by: { ...invitation.invitedBy },
    created_at: invitation.createdAt.toISOString(),
    expires_at: invitation.expiresAt.toISOString(),
  };
}
