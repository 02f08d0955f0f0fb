import { covers, ROLES, type Role } from "@millrace/domain";

/** What each role lets a person or a program do. */
const ROLE_WORDS: Record<Role, string> = {
  owner: "Owner: everything",
  admin: "Admin: delete clusters, manage members and API keys",
  operator: "Operator: create and change clusters and environments",
  developer: "Developer: manage topics, records and tuning, run benchmarks",
  viewer: "Viewer: read only, no records",
};

/** Roles that somebody of this role can give away. */
export function roleOptions(own: Role | undefined): { value: Role; label: string }[] {
  return ROLES.filter((role) => own !== undefined && covers(own, role)).map((role) => ({
    value: role,
    label: ROLE_WORDS[role],
  }));
}
