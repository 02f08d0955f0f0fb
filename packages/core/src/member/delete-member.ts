import { type MemberId, type Principal, permissionsIn } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "./assert-covers.ts";
import { assertNotLastOwner, requireMember } from "./require-member.ts";

/**
 * Removes a member, whose next request is refused. API keys that the member created stay: they belong to
 * the organization. Throws `not_found`; `forbidden` where the member's role is above the caller's;
 * `last_owner`.
 */
export async function deleteMember(core: Core, principal: Principal, id: MemberId): Promise<void> {
  const { organizationId } = principal;
  await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const member = await requireMember(tx, principal, id);
    assertCovers(principal, member.role, "remove a member", permissionsIn(member));
    await assertNotLastOwner(tx, member);
    await tx.members.remove(organizationId, member.id);
  });
}
