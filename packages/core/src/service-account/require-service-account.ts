import type { TenantDatabase } from "@millrace/db";
import {
  isId,
  notFound,
  type Principal,
  type ServiceAccount,
  type ServiceAccountId,
} from "@millrace/domain";

/** Throws `not_found`. */
export async function requireServiceAccount(
  { serviceAccounts }: Pick<TenantDatabase, "serviceAccounts">,
  { organizationId }: Principal,
  id: ServiceAccountId,
): Promise<ServiceAccount> {
  const found = isId("svc", id) ? await serviceAccounts.get(organizationId, id) : undefined;
  if (!found) throw notFound("service account", id);
  return found;
}
