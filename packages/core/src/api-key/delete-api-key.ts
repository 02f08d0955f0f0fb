import { type ApiKeyId, isId, notFound, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** Revokes a key: the next request that carries it is refused. Throws `not_found`. */
export async function deleteApiKey(core: Core, principal: Principal, id: ApiKeyId): Promise<void> {
  const { organizationId } = principal;
  if (!isId("key", id)) throw notFound("API key", id);
  await core.db.transaction(async (tx) => {
    const revoked = await tx.apiKeys.revoke(organizationId, id, core.clock.now());
    if (!revoked) throw notFound("API key", id);
  });
}
