import type { Database } from "@millrace/db";
import { DomainError, notFound, type Principal } from "@millrace/domain";
import type { LiveSession } from "./identity-requests.ts";

/**
 * What the session of a platform operator acts as: the member whom it impersonates. Undefined for everybody else.
 * Nothing of any tenant exists for a platform operator without an impersonation. Throws `not_found`.
 */
export async function impersonatedPrincipal(
  { platform, signIn }: Pick<Database, "platform" | "signIn">,
  { id, authenticatedAt }: Pick<LiveSession, "id" | "authenticatedAt">,
  wanted: string | null,
): Promise<Principal | undefined> {
  const found = await platform.active(id);
  if (!found) {
    if (await platform.isOperator(id)) throw noImpersonation();
    return undefined;
  }
  const { organizationId, userId, ...impersonation } = found;
  if (wanted !== null && wanted !== organizationId) throw notFound("organization", wanted);
  const membership = (await signIn.membershipsOf(userId)).find(
    (each) => each.organizationId === organizationId,
  );
  if (!membership) throw noImpersonation();
  const { organization: _, requiresSso: __, ...held } = membership;
  const session = { id, authenticatedAt, isSingleSignOn: false };
  return { ...held, apiKeyId: undefined, session, impersonation };
}

function noImpersonation(): DomainError {
  return new DomainError("not_found", "A platform operator belongs to no organization.", {
    remedy: "Begin an impersonation on the console's page /platform.",
  });
}
