import { allows, DomainError, type Permission, type Principal } from "@millrace/domain";

/** Throws `forbidden` unless the principal's role grants the permission. */
export function authorize(principal: Principal, permission: Permission): void {
  if (allows(principal.role, permission)) return;
  throw new DomainError("forbidden", `The role ${principal.role} does not grant ${permission}.`, {
    remedy: "Ask an owner of the organization for another role.",
  });
}
