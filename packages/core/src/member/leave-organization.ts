import { notFound, type OrganizationId, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertNotLastOwner } from "./require-member.ts";

/**
 * Ends the caller's own membership. The organization is named so that nobody leaves another one than they
 * mean. Throws `not_found` for any other organization and for API keys, which are no members; `last_owner`.
 */
export async function leaveOrganization(
  core: Core,
  { organizationId, userId }: Principal,
  named: OrganizationId,
): Promise<void> {
  if (named !== organizationId || userId === undefined) throw notFound("organization", named);
  await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const member = await tx.members.ofUser(organizationId, userId);
    if (!member) throw notFound("organization", named);
    await assertNotLastOwner(tx, member);
    await tx.members.remove(organizationId, member.id);
  });
}
