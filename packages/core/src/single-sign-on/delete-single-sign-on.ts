import { DomainError, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertMayConnect } from "./assert-may-connect.ts";

/** Ends every session that single sign-on opened. Throws `forbidden` for a narrowed key, `not_found` where it is not set up. */
export async function deleteSingleSignOn({ db }: Core, principal: Principal): Promise<void> {
  assertMayConnect(principal);
  const { organizationId } = principal;
  await db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    if (await tx.ssoConnections.remove(organizationId)) return;
    throw new DomainError("not_found", "Single sign-on is not set up.");
  });
}
