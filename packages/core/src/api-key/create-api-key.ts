import { isAddressRange, newApiKeySecret } from "@millrace/auth";
import type { Transaction } from "@millrace/db";
import {
  API_KEYS_PER_ORGANIZATION_MAX,
  type ApiKey,
  DomainError,
  type Principal,
  type ServiceAccountId,
  validationFailed,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertNoWider, type KeyPower } from "./assert-no-wider.ts";

export interface CreateApiKeyInput extends KeyPower {
  readonly name: string;
}

/**
 * A key of the tenant. Its secret is in the answer and nowhere else. Throws `forbidden` where the
 * key would be able to do more than its maker, `validation_failed` for an expiry in the past,
 * `limit_exceeded`.
 */
export async function createApiKey(
  core: Core,
  principal: Principal,
  input: CreateApiKeyInput,
): Promise<{ apiKey: ApiKey; secret: string }> {
  let secret = "";
  const { organizationId } = principal;
  const apiKey = await core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const count = await tx.apiKeys.countOwn(organizationId, core.clock.now());
    if (count >= API_KEYS_PER_ORGANIZATION_MAX) throw tooMany();
    const added = await addApiKey(core, tx, principal, input);
    secret = added.secret;
    return added.apiKey;
  });
  return { apiKey, secret };
}

/** Throws as `createApiKey` does, but for `limit_exceeded`. */
export async function addApiKey(
  { clock }: Pick<Core, "clock">,
  tx: Transaction,
  principal: Principal,
  input: CreateApiKeyInput & { readonly serviceAccountId?: ServiceAccountId },
): Promise<{ apiKey: ApiKey; secret: string }> {
  assertNoWider(principal, input, "create a key");
  const broken = input.allowedAddresses.findIndex((range) => !isAddressRange(range));
  if (broken >= 0) {
    const message = "must be an IP address or a CIDR block like 10.0.0.0/8";
    throw validationFailed([
      { pointer: `/allowed_addresses/${broken}`, code: "malformed", message },
    ]);
  }
  if (input.expiresAt && input.expiresAt <= clock.now()) {
    throw new DomainError("validation_failed", "The expiry is in the past.", {
      fields: [{ pointer: "/expires_at", code: "out_of_range", message: "must be in the future" }],
    });
  }
  const { secret, hash, hint } = newApiKeySecret();
  const { name, role, permissions = [], allowedAddresses, expiresAt, serviceAccountId } = input;
  const apiKey = await tx.apiKeys.create({
    organizationId: principal.organizationId,
    ...{ name, role, permissions, allowedAddresses, expiresAt, serviceAccountId, hint },
    secretHash: hash,
    createdBy: principal.userId,
  });
  return { apiKey, secret };
}

function tooMany(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `An organization has at most ${API_KEYS_PER_ORGANIZATION_MAX} API keys of its own.`,
    { remedy: "Revoke a key that is no longer needed, or use a service account." },
  );
}
