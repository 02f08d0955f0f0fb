import type { Member, MemberId, Principal, Role } from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertCovers } from "./assert-covers.ts";
import { assertNotLastOwner, requireMember } from "./require-member.ts";

export interface UpdateMemberInput {
  readonly memberId: MemberId;
  readonly role: Role;
}

/**
 * Gives a member another role, from the next request on. Throws `not_found`; `forbidden` where the old or
 * the new role is above the caller's, or the caller is a key that is limited by address or expiry; `last_owner`.
 */
export async function updateMember(
  core: Core,
  principal: Principal,
  { memberId, role }: UpdateMemberInput,
): Promise<Member> {
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const member = await requireMember(tx, principal, memberId);
    assertCovers(principal, member.role, "change a member");
    assertCovers(principal, role, "create a member");
    assertUnlimited(principal, "change a member");
    if (member.role === role) return member;
    await assertNotLastOwner(tx, member);
    await tx.members.setRole(organizationId, member.id, role);
    return { ...member, role };
  });
}
