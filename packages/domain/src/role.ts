/** Roles of a member or an API key within one organization, from most to least powerful. */
export const ROLES = ["owner", "admin", "operator", "developer", "viewer"] as const;
export type Role = (typeof ROLES)[number];

/** What is granted where nobody says what. */
export const ROLE_LEAST = "viewer" satisfies Role;

/**
 * What a principal may do. Every procedure names exactly one; anything not granted is denied.
 * `account:write` covers one's own sessions and leaving the organization. `operation:cancel` covers what the role may start (`cancelPermission`).
 * `access:review` covers reading, exporting and recording access reviews.
 * `sso:…` is for owners alone: whoever chooses the identity provider can sign in as any member.
 */
export const PERMISSIONS = [
  "account:read",
  "account:write",
  "environment:read",
  "environment:write",
  "catalog:read",
  "cluster:read",
  "cluster:create",
  "cluster:update",
  "cluster:delete",
  "operation:read",
  "operation:cancel",
  "operation:write",
  "topic:read",
  "topic:write",
  "record:read",
  "record:write",
  "group:read",
  "user:read",
  "user:write",
  "acl:read",
  "acl:write",
  "quota:read",
  "quota:write",
  "metrics:read",
  "tuning:read",
  "tuning:write",
  "benchmark:run",
  "member:read",
  "member:write",
  "apikey:read",
  "apikey:write",
  "audit:read",
  "access:review",
  "mail:read",
  "sso:read",
  "sso:write",
] as const;
export type Permission = (typeof PERMISSIONS)[number];

const VIEWER: readonly Permission[] = [
  "account:read",
  "account:write",
  "member:read",
  "environment:read",
  "catalog:read",
  "cluster:read",
  "operation:read",
  "topic:read",
  "group:read",
  "user:read",
  "acl:read",
  "quota:read",
  "metrics:read",
  "tuning:read",
];
/** Whoever builds on clusters that others made. */
const DEVELOPER: readonly Permission[] = [
  ...VIEWER,
  "topic:write",
  "record:read",
  "record:write",
  "tuning:write",
  "benchmark:run",
  "operation:cancel",
];
/** Whoever runs clusters, but neither destroys them nor decides who may do what. */
const OPERATOR: readonly Permission[] = [
  ...DEVELOPER,
  "environment:write",
  "cluster:create",
  "cluster:update",
  "operation:write",
];
const ADMIN: readonly Permission[] = [
  ...OPERATOR,
  "cluster:delete",
  "member:write",
  "user:write",
  "acl:write",
  "quota:write",
  "apikey:read",
  "apikey:write",
  "audit:read",
  "access:review",
  "mail:read",
];

const GRANTS: Record<Role, ReadonlySet<Permission>> = {
  owner: new Set(PERMISSIONS),
  admin: new Set(ADMIN),
  operator: new Set(OPERATOR),
  developer: new Set(DEVELOPER),
  viewer: new Set(VIEWER),
};

export function isRole(value: string): value is Role {
  return (ROLES as readonly string[]).includes(value);
}

/** A stored role. One that this version does not know grants the least. */
export function storedRole(value: string): Role {
  return isRole(value) ? value : ROLE_LEAST;
}

export function allows(role: Role, permission: Permission): boolean {
  return GRANTS[role].has(permission);
}

/** Everything that the role grants. */
export function permissionsOf(role: Role): ReadonlySet<Permission> {
  return GRANTS[role];
}

export function isPermission(value: string): value is Permission {
  return (PERMISSIONS as readonly string[]).includes(value);
}

/** Whether `role` grants everything that `other` grants: nobody hands out more than they hold. */
export function covers(role: Role, other: Role): boolean {
  return ROLES.indexOf(role) <= ROLES.indexOf(other);
}
