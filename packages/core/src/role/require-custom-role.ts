import type { TenantDatabase } from "@millrace/db";
import {
  type CustomRole,
  type CustomRoleId,
  isId,
  notFound,
  type Principal,
} from "@millrace/domain";

/** Throws `not_found`. */
export async function requireCustomRole(
  { customRoles }: Pick<TenantDatabase, "customRoles">,
  { organizationId }: Principal,
  id: CustomRoleId,
): Promise<CustomRole> {
  const found = isId("rol", id) ? await customRoles.get(organizationId, id) : undefined;
  if (!found) throw notFound("role", id);
  return found;
}
