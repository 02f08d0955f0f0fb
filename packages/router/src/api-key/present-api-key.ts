import type { ApiKey as ApiKeyShape } from "@millrace/contract";
import type { ApiKey } from "@millrace/domain";

export function presentApiKey(apiKey: ApiKey): ApiKeyShape {
  return {
    id: apiKey.id,
    name: apiKey.name,
    role: apiKey.role,
    service_account_id: apiKey.serviceAccountId ?? null,
    hint: apiKey.hint,
    created_at: apiKey.createdAt.toISOString(),
    expires_at: apiKey.expiresAt?.toISOString() ?? null,
    last_used_at: apiKey.lastUsedAt?.toISOString() ?? null,
    permissions: apiKey.permissions ? [...apiKey.permissions] : null,
    allowed_addresses: [...apiKey.allowedAddresses],
    previous_valid_until: apiKey.previousValidUntil?.toISOString() ?? null,
  };
}
