import { isAddressRange, newApiKeySecret } from "@millrace/auth";
import { type ApiKey, DomainError, type Principal, validationFailed } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertNoWider, type KeyPower } from "./assert-no-wider.ts";

export interface CreateApiKeyInput extends KeyPower {
  readonly name: string;
}

/**
 * A key of the tenant. Its secret is in the answer and nowhere else. Throws `forbidden` where the
 * key would be able to do more than its maker, `validation_failed` for an expiry in the past.
 */
export async function createApiKey(
  core: Core,
  principal: Principal,
  input: CreateApiKeyInput,
): Promise<{ apiKey: ApiKey; secret: string }> {
  assertNoWider(principal, input, "create a key");
  const broken = input.allowedAddresses.findIndex((range) => !isAddressRange(range));
  if (broken >= 0) {
    const message = "must be an IP address or a CIDR block like 10.0.0.0/8";
    throw validationFailed([
      { pointer: `/allowed_addresses/${broken}`, code: "malformed", message },
    ]);
  }
  if (input.expiresAt && input.expiresAt <= core.clock.now()) {
    throw new DomainError("validation_failed", "The expiry is in the past.", {
      fields: [{ pointer: "/expires_at", code: "out_of_range", message: "must be in the future" }],
    });
  }
  const { secret, hash, hint } = newApiKeySecret();
  const apiKey = await core.db.transaction((tx) =>
    tx.apiKeys.create({
      organizationId: principal.organizationId,
      name: input.name,
      role: input.role,
      permissions: input.permissions ?? [],
      allowedAddresses: input.allowedAddresses,
      hint,
      secretHash: hash,
      createdBy: principal.userId,
      expiresAt: input.expiresAt,
    }),
  );
  return { apiKey, secret };
}
