import type { Principal, ServiceAccountId } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";
import { requireServiceAccount } from "./require-service-account.ts";

/** Deletes the account and revokes its keys. Throws `not_found`; `forbidden` where its role is above the caller's. */
export async function deleteServiceAccount(
  core: Core,
  principal: Principal,
  id: ServiceAccountId,
): Promise<void> {
  const { organizationId } = principal;
  await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const account = await requireServiceAccount(tx, principal, id);
    assertCovers(principal, account.role, "delete a service account");
    await tx.serviceAccounts.remove(organizationId, account.id, core.clock.now());
  });
}
