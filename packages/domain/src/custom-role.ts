import type { CustomRoleId, OrganizationId } from "./id.ts";
import { allows, PERMISSIONS, type Permission, permissionsOf, ROLES, type Role } from "./role.ts";

/** Custom roles of one organization: more than people can keep apart. */
export const CUSTOM_ROLES_PER_ORGANIZATION_MAX = 50;

/** What every member may do, whatever the role: see who they are, end their sessions, leave. */
export const PERMISSIONS_OF_ALL: readonly Permission[] = ["account:read", "account:write"];

/** What a custom role can grant: everything but what is for owners alone. */
export const CUSTOM_ROLE_PERMISSIONS = PERMISSIONS.filter((each) => allows("admin", each));

/** A named set of permissions that members of one organization can have instead of a built-in role. */
export interface CustomRole {
  readonly id: CustomRoleId;
  readonly organizationId: OrganizationId;
  /** Unique within the organization, and no role's, in any case. */
  readonly name: string;
  readonly description: string;
  readonly permissions: readonly Permission[];
  readonly createdAt: Date;
}

/** What a principal or a member knows of it. */
export type HeldCustomRole = Pick<CustomRole, "id" | "name" | "permissions">;

/** What somebody holds: a built-in role, or a custom role, whose permissions narrow the least built-in role that has them all. */
export interface Grant {
  readonly role: Role;
  readonly customRole?: HeldCustomRole | undefined;
}

/** The least role that grants all of these permissions. */
export function leastRoleWith(permissions: readonly Permission[]): Role {
  const enough = ROLES.filter((role) => permissions.every((each) => allows(role, each)));
  return enough.at(-1) ?? "owner";
}

export function grants({ role, customRole }: Grant, permission: Permission): boolean {
  if (!allows(role, permission)) return false;
  return customRole?.permissions.includes(permission) ?? true;
}

/** Everything that is granted. */
export function permissionsIn({ role, customRole }: Grant): readonly Permission[] {
  return customRole ? customRole.permissions : [...permissionsOf(role)];
}
