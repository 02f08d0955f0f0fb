import {
  CUSTOM_ROLES_PER_ORGANIZATION_MAX,
  type CustomRole,
  DomainError,
  isRole,
  PERMISSIONS_OF_ALL,
  type Permission,
  type Principal,
} from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { assertHolds } from "../member/assert-covers.ts";

export interface CreateRoleInput {
  readonly name: string;
  readonly description: string;
  readonly permissions: readonly Permission[];
}

/**
 * A custom role. Throws `forbidden` for a permission that the caller does not have, or where the caller is a key that
 * is limited by address or expiry; `role_name_taken` with the id of the one that has the name; `limit_exceeded`.
 */
export async function createRole(
  core: Core,
  principal: Principal,
  { name, description, permissions }: CreateRoleInput,
): Promise<CustomRole> {
  const { organizationId } = principal;
  assertHolds(principal, permissions, "create a role");
  assertUnlimited(principal, "create a role");
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const known = await tx.customRoles.list(organizationId);
    const existing = known.find((each) => each.name.toLowerCase() === name.toLowerCase());
    if (existing || isRole(name.toLowerCase())) throw nameTaken(name, existing?.id);
    if (known.length >= CUSTOM_ROLES_PER_ORGANIZATION_MAX) throw tooMany();
    const complete = completed(permissions);
    const role = { organizationId, name, description, permissions: complete };
    const created = await tx.customRoles.create(role);
    // The database's lower case differs from ours in some scripts.
    if (!created) throw nameTaken(name, undefined);
    return created;
  });
}

/** Each once, with what every member may do. */
export function completed(permissions: readonly Permission[]): Permission[] {
  return [...new Set([...PERMISSIONS_OF_ALL, ...permissions])];
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `An organization has at most ${CUSTOM_ROLES_PER_ORGANIZATION_MAX} custom roles.`,
    { remedy: "Delete a role that is no longer needed." },
  );
}

function nameTaken(name: string, existingId: string | undefined): DomainError {
  return new DomainError("role_name_taken", `A role named "${name}" already exists.`, {
    remedy: "Choose another name.",
    fields: [{ pointer: "/name", code: "taken", message: "is used by another role" }],
    ...(existingId && { existingId }),
  });
}
