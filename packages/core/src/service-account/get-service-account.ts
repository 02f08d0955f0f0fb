import type { Principal, ServiceAccount, ServiceAccountId } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireServiceAccount } from "./require-service-account.ts";

/** Throws `not_found`. */
export async function getServiceAccount(
  core: Core,
  principal: Principal,
  id: ServiceAccountId,
): Promise<ServiceAccount> {
  return requireServiceAccount(core.db, principal, id);
}
