import {
  type ApiKey,
  DomainError,
  KEYS_PER_SERVICE_ACCOUNT_MAX,
  type Principal,
  type ServiceAccountId,
} from "@millrace/domain";
import type { KeyPower } from "../api-key/assert-no-wider.ts";
import { addApiKey } from "../api-key/create-api-key.ts";
import type { Core } from "../core.ts";
import { requireServiceAccount } from "./require-service-account.ts";

export interface CreateServiceAccountKeyInput extends Omit<KeyPower, "role"> {
  readonly serviceAccountId: ServiceAccountId;
  readonly name: string;
}

/**
 * A key with the account's role, also after that is lowered. Its secret is in the answer and nowhere else.
 * Throws `not_found`; `forbidden` where the key would be able to do more than the caller; `limit_exceeded`.
 */
export async function createServiceAccountKey(
  core: Core,
  principal: Principal,
  { serviceAccountId, ...input }: CreateServiceAccountKeyInput,
): Promise<{ apiKey: ApiKey; secret: string }> {
  let secret = "";
  const apiKey = await core.db.transaction(async (tx) => {
    await tx.organizations.lock(principal.organizationId);
    const { id, role } = await requireServiceAccount(tx, principal, serviceAccountId);
    const count = await tx.apiKeys.countOf(id, core.clock.now());
    if (count >= KEYS_PER_SERVICE_ACCOUNT_MAX) throw tooMany();
    const added = await addApiKey(core, tx, principal, { ...input, role, serviceAccountId: id });
    secret = added.secret;
    return added.apiKey;
  });
  return { apiKey, secret };
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `A service account has at most ${KEYS_PER_SERVICE_ACCOUNT_MAX} API keys.`,
    { remedy: "Revoke a key that is no longer needed, or rotate one." },
  );
}
