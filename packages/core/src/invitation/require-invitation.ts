import type { TenantDatabase } from "@millrace/db";
import {
  type Invitation,
  type InvitationId,
  isId,
  isPending,
  notFound,
  type Principal,
} from "@millrace/domain";

/** An invitation that can still be accepted. Throws `not_found`. */
export async function requireInvitation(
  { invitations }: Pick<TenantDatabase, "invitations">,
  { organizationId }: Principal,
  id: InvitationId,
  now: Date,
): Promise<Invitation> {
  const found = isId("inv", id) ? await invitations.get(organizationId, id) : undefined;
  if (!found || !isPending(found, now)) throw notFound("invitation", id);
  return found;
}
