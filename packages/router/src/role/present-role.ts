import type { CustomRole as CustomRoleShape } from "@millrace/contract";
import type { CustomRole } from "@millrace/domain";

export function presentRole(role: CustomRole): CustomRoleShape {
  return {
    id: role.id,
    name: role.name,
    description: role.description,
    permissions: [...role.permissions],
    created_at: role.createdAt.toISOString(),
  };
}
