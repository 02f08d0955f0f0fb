import { covers, DomainError, type Principal, type Role } from "@millrace/domain";

/**
 * Nobody grants or takes away more than their own role has. Throws `forbidden`; `action` completes
 * "The role admin cannot … with the role owner."
 */
export function assertCovers(principal: Principal, role: Role, action: string): void {
  if (covers(principal.role, role)) return;
  throw new DomainError(
    "forbidden",
    `The role ${principal.role} cannot ${action} with the role ${role}.`,
    { remedy: "Ask somebody with that role, or choose your own role or a lower one." },
  );
}
