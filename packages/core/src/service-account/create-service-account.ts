import {
  DomainError,
  type Principal,
  type Role,
  SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX,
  type ServiceAccount,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";

export interface CreateServiceAccountInput {
  readonly name: string;
  readonly description: string;
  readonly role: Role;
}

/**
 * A member that is no person. Throws `forbidden` for a role above the caller's, `service_account_name_taken`
 * with the id of the one that has the name, `limit_exceeded`.
 */
export async function createServiceAccount(
  core: Core,
  principal: Principal,
  input: CreateServiceAccountInput,
): Promise<ServiceAccount> {
  const { organizationId } = principal;
  assertCovers(principal, input.role, "create a service account");
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const count = await tx.serviceAccounts.count(organizationId);
    if (count >= SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX) throw tooMany();
    const created = await tx.serviceAccounts.create({ organizationId, ...input });
    if (created) return created;
    const existing = await tx.serviceAccounts.findByName(organizationId, input.name);
    throw nameTaken(input.name, existing?.id);
  });
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `An organization has at most ${SERVICE_ACCOUNTS_PER_ORGANIZATION_MAX} service accounts.`,
    { remedy: "Delete a service account that is no longer needed." },
  );
}

function nameTaken(name: string, existingId: string | undefined): DomainError {
  return new DomainError(
    "service_account_name_taken",
    `A service account named "${name}" already exists.`,
    {
      remedy: "Choose another name.",
      fields: [{ pointer: "/name", code: "taken", message: "is used by another service account" }],
      ...(existingId && { existingId }),
    },
  );
}
