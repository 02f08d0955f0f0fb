import {
  allows,
  covers,
  DomainError,
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
    throw new DomainError("forbidden", `This API key does not have the permission ${missing}.`, {
      remedy: `An API key cannot ${action} with more permissions than its own.`,
    });
  }
  throw new DomainError(
    "forbidden",
    `The role ${principal.role} cannot ${action} with the role ${role}.`,
    { remedy: "Ask somebody with that role, or choose your own role or a lower one." },
  );
}
