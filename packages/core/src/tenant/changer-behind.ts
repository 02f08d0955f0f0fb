import { type Changer, changerOf, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Who acts, by the name that they have now: people and keys change their names, and go. */
export async function changerBehind({ db }: Core, principal: Principal): Promise<Changer> {
  const { organizationId, apiKeyId, userId } = principal;
  if (apiKeyId !== undefined) {
    return changerOf(principal, (await db.apiKeys.get(organizationId, apiKeyId))?.name ?? "");
  }
  const user = userId && (await db.organizations.getUser(userId));
  return changerOf(principal, user ? user.email : "");
}
