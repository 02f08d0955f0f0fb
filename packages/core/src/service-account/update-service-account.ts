import {
  covers,
  type Principal,
  type Role,
  type ServiceAccount,
  type ServiceAccountId,
} from "@millrace/domain";
import { assertNoWider } from "../api-key/assert-no-wider.ts";
import type { Core } from "../core.ts";
import { requireServiceAccount } from "./require-service-account.ts";

export interface UpdateServiceAccountInput {
  readonly serviceAccountId: ServiceAccountId;
  readonly description?: string | undefined;
  readonly role?: Role | undefined;
  readonly disabled?: boolean | undefined;
}

/**
 * Takes effect with the next request of the account's keys. A role that is higher than before revokes them: whoever
 * holds one may have fewer rights than the new role grants. Throws `not_found`; `forbidden` where the old or
 * the new role is above the caller's, or where the caller is a key whose own limits the account's keys lack.
 */
export async function updateServiceAccount(
  core: Core,
  principal: Principal,
  { serviceAccountId, description, role, disabled }: UpdateServiceAccountInput,
): Promise<ServiceAccount> {
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const account = await requireServiceAccount(tx, principal, serviceAccountId);
    for (const each of [account.role, role ?? account.role]) {
      const widest = { role: each, allowedAddresses: [] };
      assertNoWider(principal, widest, "change a service account");
    }
    if (role !== undefined && !covers(account.role, role)) {
      await tx.serviceAccounts.revokeKeys(organizationId, account.id, core.clock.now());
    }
    const isDisabled = account.disabledAt !== undefined;
    await tx.serviceAccounts.update(organizationId, account.id, {
      ...(description !== undefined && { description }),
      ...(role !== undefined && { role }),
      ...(disabled !== undefined &&
        disabled !== isDisabled && { disabledAt: disabled ? core.clock.now() : null }),
    });
    return requireServiceAccount(tx, principal, serviceAccountId);
  });
}
