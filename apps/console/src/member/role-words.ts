import { covers, type Permission, permissionsOf, ROLES, type Role } from "@millrace/domain";

/** What each role lets a person or a program do. */
const ROLE_WORDS: Record<Role, string> = {
  owner: "Owner: everything",
  admin: "Admin: delete clusters, manage members and API keys",
  operator: "Operator: create and change clusters and environments",
  developer: "Developer: manage topics, records and tuning, run benchmarks",
  viewer: "Viewer: read only, no records",
};

/** Roles that somebody of this role can give away: with these permissions, where they are fewer than the role's. */
export function roleOptions(
  own: Role | undefined,
  held?: readonly Permission[],
): { value: Role; label: string }[] {
  return ROLES.filter((role) => own !== undefined && covers(own, role))
    .filter((role) => held === undefined || [...permissionsOf(role)].every((p) => held.includes(p)))
    .map((role) => ({ value: role, label: ROLE_WORDS[role] }));
}
