import { newApiKeySecret } from "@millrace/auth";
import { type ApiKey, type ApiKeyId, isId, notFound, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { assertNoWider } from "./assert-no-wider.ts";

const HOUR_MS = 3_600_000;

/**
 * Gives a key a new secret, which is in the answer and nowhere else. The one before works for `overlapHours`
 * more; the one before that no longer. Throws `not_found`, `forbidden` where the key may do more than the
 * caller.
 */
export async function rotateApiKey(
  core: Core,
  principal: Principal,
  { id, overlapHours }: { readonly id: ApiKeyId; readonly overlapHours: number },
): Promise<{ apiKey: ApiKey; secret: string }> {
  const { organizationId } = principal;
  if (!isId("key", id)) throw notFound("API key", id);
  const now = core.clock.now();
  const { secret, hash, hint } = newApiKeySecret();
  const previousValidUntil =
    overlapHours === 0 ? undefined : new Date(now.getTime() + overlapHours * HOUR_MS);
  const apiKey = await core.db.transaction(async (tx) => {
    const known = await tx.apiKeys.get(organizationId, id);
    if (!known || known.revokedAt) throw notFound("API key", id);
    assertNoWider(principal, known, "rotate a key");
    const secrets = { secretHash: hash, hint, previousValidUntil };
    const rotated = await tx.apiKeys.rotate(organizationId, id, secrets);
    if (!rotated) throw notFound("API key", id);
    return rotated;
  });
  return { apiKey, secret };
}
