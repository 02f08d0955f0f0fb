import { type ApiKey, type ApiKeyId, isId, notFound, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** A key that is not revoked. Throws `not_found`. */
export async function getApiKey(core: Core, principal: Principal, id: ApiKeyId): Promise<ApiKey> {
  const key = isId("key", id) ? await core.db.apiKeys.get(principal.organizationId, id) : undefined;
  if (!key || key.revokedAt) throw notFound("API key", id);
  return key;
}
