import { type CustomRoleId, DomainError, type Principal } from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertHolds } from "../member/assert-covers.ts";
import { requireCustomRole } from "./require-custom-role.ts";

/**
 * Throws `not_found`; `forbidden` where the role has more than the caller, or the caller is a key that is limited by
 * address or expiry; `role_in_use` while members have it.
 */
export async function deleteRole(
  core: Core,
  principal: Principal,
  id: CustomRoleId,
): Promise<void> {
  const { organizationId } = principal;
  await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const role = await requireCustomRole(tx, principal, id);
    assertHolds(principal, role.permissions, "delete a role");
    assertUnlimited(principal, "delete a role");
    const members = await tx.customRoles.countMembers(organizationId, id);
    if (members > 0) throw inUse(role.name, members);
    await tx.customRoles.remove(organizationId, id);
  });
}

function inUse(name: string, members: number): DomainError {
  const have = members === 1 ? "1 member has" : `${members} members have`;
  return new DomainError("role_in_use", `${have} the role ${name}.`, {
    remedy: "Give them another role first.",
  });
}
