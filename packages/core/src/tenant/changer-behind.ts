import { type Changer, changerOf, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/**
 * Who acts, by the name that they have now: people and keys change their names, and go. The key of a service
 * account is `<account>/<key>`, and a member whom a platform operator impersonates `<member> (by <operator>)`.
 */
export async function changerBehind({ db }: Core, principal: Principal): Promise<Changer> {
  const { organizationId, apiKeyId, serviceAccountId, userId } = principal;
  if (apiKeyId !== undefined) {
    const name = (await db.apiKeys.get(organizationId, apiKeyId))?.name ?? "";
    if (serviceAccountId === undefined) return changerOf(principal, name);
    const account = await db.serviceAccounts.get(organizationId, serviceAccountId);
    return changerOf(principal, `${account?.name ?? ""}/${name}`);
  }
  const user = userId && (await db.organizations.getUser(userId));
  const name = user ? user.email : "";
  const { impersonation } = principal;
  if (impersonation === undefined) return changerOf(principal, name);
  return changerOf(principal, `${name} (by ${impersonation.operator.email})`);
}
