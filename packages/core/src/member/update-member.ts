import {
  type CustomRoleId,
  type DomainError,
  type Member,
  type MemberId,
  type Principal,
  permissionsIn,
  ROLE_LEAST,
  type Role,
  validationFailed,
} from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { requireCustomRole } from "../role/require-custom-role.ts";
import { assertCovers, assertHolds } from "./assert-covers.ts";
import { assertNotLastOwner, requireMember } from "./require-member.ts";

export interface UpdateMemberInput {
  readonly memberId: MemberId;
  /** Exactly one of `role` and `customRoleId`. */
  readonly role?: Role | undefined;
  readonly customRoleId?: CustomRoleId | undefined;
}

/**
 * Gives a member another role, from the next request on. Throws `not_found`; `forbidden` where the old or
 * the new role is above the caller's, or the caller is a key that is limited by address or expiry; `last_owner`;
 * `validation_failed` without exactly one role.
 */
export async function updateMember(
  core: Core,
  principal: Principal,
  { memberId, role, customRoleId }: UpdateMemberInput,
): Promise<Member> {
  if ((role === undefined) === (customRoleId === undefined)) throw notOneRole();
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const member = await requireMember(tx, principal, memberId);
    assertCovers(principal, member.role, "change a member", permissionsIn(member));
    assertUnlimited(principal, "change a member");
    if (role !== undefined) {
      assertCovers(principal, role, "create a member");
      if (member.role === role && !member.customRole) return member;
      await assertNotLastOwner(tx, member);
      await tx.members.setRole(organizationId, member.id, role);
    } else if (customRoleId !== undefined) {
      const found = await requireCustomRole(tx, principal, customRoleId);
      assertHolds(principal, found.permissions, "create a member");
      await assertNotLastOwner(tx, member);
      await tx.members.setRole(organizationId, member.id, ROLE_LEAST, found.id);
    }
    return requireMember(tx, principal, memberId);
  });
}

function notOneRole(): DomainError {
  const message = "or custom_role_id is required, not both";
  return validationFailed([{ pointer: "/role", code: "invalid", message }]);
}
