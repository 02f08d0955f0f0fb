import type { CustomRole, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** The tenant's custom roles by name: so few that they need no pages. */
export async function listRoles(
  core: Core,
  { organizationId }: Principal,
): Promise<readonly CustomRole[]> {
  return core.db.customRoles.list(organizationId);
}
