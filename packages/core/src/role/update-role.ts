import type { CustomRole, CustomRoleId, Permission, Principal } from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertHolds } from "../member/assert-covers.ts";
import { completed } from "./create-role.ts";
import { requireCustomRole } from "./require-custom-role.ts";

export interface UpdateRoleInput {
  readonly roleId: CustomRoleId;
  readonly description?: string | undefined;
  readonly permissions?: readonly Permission[] | undefined;
}

/**
 * Takes effect with the next request of each member that has the role. Throws `not_found`; `forbidden` where the
 * role has, or would have, a permission that the caller does not have, or the caller is a key that is limited by
 * address or expiry.
 */
export async function updateRole(
  core: Core,
  principal: Principal,
  { roleId, description, permissions }: UpdateRoleInput,
): Promise<CustomRole> {
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const found = await requireCustomRole(tx, principal, roleId);
    for (const each of [found.permissions, permissions ?? []]) {
      assertHolds(principal, each, "change a role");
    }
    assertUnlimited(principal, "change a role");
    await tx.customRoles.update(organizationId, roleId, {
      ...(description !== undefined && { description }),
      ...(permissions && { permissions: completed(permissions) }),
    });
    return requireCustomRole(tx, principal, roleId);
  });
}
