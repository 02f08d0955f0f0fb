import { type ApiKeyId, isId, notFound, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";

/**
 * Revokes a key: the next request that carries it is refused. Throws `not_found`, `forbidden` where the
 * key may do more than the caller.
 */
export async function deleteApiKey(core: Core, principal: Principal, id: ApiKeyId): Promise<void> {
  const { organizationId } = principal;
  if (!isId("key", id)) throw notFound("API key", id);
  await core.db.transaction(async (tx) => {
    const key = await tx.apiKeys.get(organizationId, id);
    if (!key || key.revokedAt) throw notFound("API key", id);
    assertCovers(principal, key.role, "revoke a key", key.permissions);
    const revoked = await tx.apiKeys.revoke(organizationId, id, core.clock.now());
    if (!revoked) throw notFound("API key", id);
  });
}
