import { newApiKeySecret } from "@millrace/auth";
import { type ApiKey, DomainError, type Principal, type Role } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertCovers } from "../member/assert-covers.ts";

export interface CreateApiKeyInput {
  readonly name: string;
  readonly role: Role;
  readonly expiresAt?: Date | undefined;
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
  assertCovers(principal, input.role, "create a key");
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
      hint,
      secretHash: hash,
      createdBy: principal.userId,
      expiresAt: input.expiresAt,
    }),
  );
  return { apiKey, secret };
}
