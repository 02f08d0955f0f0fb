import {
  allows,
  covers,
  DomainError,
  leastRoleWith,
  mayDo,
  type Permission,
  type Principal,
  permissionsOf,
  type Role,
} from "@millrace/domain";

/**
 * Nobody grants or takes away more than their own role has. Throws `forbidden`; `action` completes
 * "The role admin cannot … with the role owner."
 */
export function assertCovers(
  principal: Principal,
  role: Role,
  action: string,
  permissions: readonly Permission[] = [...permissionsOf(role)],
): void {
  const granted = permissions.filter((permission) => allows(role, permission));
  if (covers(principal.role, role)) {
    const missing = granted.find((permission) => !mayDo(principal, permission));
    if (missing === undefined) return;
    const { customRole } = principal;
    const who = customRole ? `The role ${customRole.name}` : "This API key";
    throw new DomainError("forbidden", `${who} does not have the permission ${missing}.`, {
      remedy: `Nobody can ${action} with more permissions than their own.`,
    });
  }
  throw new DomainError(
    "forbidden",
    `The role ${principal.customRole?.name ?? principal.role} cannot ${action} with the role ${role}.`,
    { remedy: "Ask somebody with that role, or choose your own role or a lower one." },
  );
}

/** As `assertCovers`, of the permissions of a custom role. */
export function assertHolds(
  principal: Principal,
  permissions: readonly Permission[],
  action: string,
): void {
  assertCovers(principal, leastRoleWith(permissions), action, permissions);
}
