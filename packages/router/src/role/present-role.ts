import type { CustomRole as CustomRoleShape, Member } from "@millrace/contract";
import type { CustomRole, HeldCustomRole } from "@millrace/domain";

export function presentRole(role: CustomRole): CustomRoleShape {
  return {
    id: role.id,
    name: role.name,
    description: role.description,
    permissions: [...role.permissions],
    created_at: role.createdAt.toISOString(),
  };
}

/** What members, callers and ways in show of the custom role that they have. */
export function presentRoleRef(held: HeldCustomRole | undefined): Member["custom_role"] {
  return held ? { id: held.id, name: held.name } : null;
}
