import type { CustomRole, CustomRoleId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireCustomRole } from "./require-custom-role.ts";

/** Throws `not_found`. */
export async function getRole(
  core: Core,
  principal: Principal,
  id: CustomRoleId,
): Promise<CustomRole> {
  return requireCustomRole(core.db, principal, id);
}
