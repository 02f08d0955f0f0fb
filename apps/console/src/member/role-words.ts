import { type Permission, permissionsOf, ROLES, type Role } from "@millrace/domain";
import { holdsAll } from "../session/holds-all.ts";

/** What each role lets a person or a program do. */
const ROLE_WORDS: Record<Role, string> = {
  owner: "Owner: everything",
  admin: "Admin: delete clusters, manage members and API keys",
  operator: "Operator: create and change clusters and environments",
  developer: "Developer: manage topics, records and tuning, run benchmarks",
  viewer: "Viewer: read only, no records",
};

/** Roles that somebody with these permissions can give away. */
export function roleOptions(
  held: readonly Permission[] | undefined,
): { value: Role; label: string }[] {
  return ROLES.filter((role) => held && holdsAll(held, permissionsOf(role))).map(optionOf);
}

export function optionOf(role: Role): { value: Role; label: string } {
  return { value: role, label: ROLE_WORDS[role] };
}
