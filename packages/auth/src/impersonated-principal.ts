import type { Database } from "@millrace/db";
import { DomainError, notFound, type Principal } from "@millrace/domain";
import type { LiveSession } from "./identity-requests.ts";

interface Impersonations {
  readonly db: Pick<Database, "platform" | "signIn">;
  /** The installation's setting. Turned off, it also ends the write access of active impersonations. */
  readonly impersonationMayWrite: boolean;
}

/**
 * The member whom a platform operator's session impersonates. Undefined for everybody else. Nothing of any tenant exists
 * for a platform operator without an impersonation. Throws `not_found`.
 */
export async function impersonatedPrincipal(
  { db: { platform, signIn }, impersonationMayWrite }: Impersonations,
  { id, authenticatedAt }: Pick<LiveSession, "id" | "authenticatedAt">,
  wanted: string | null,
): Promise<Principal | undefined> {
  const found = await platform.active(id);
  if (!found) {
    if (await platform.isOperator(id)) throw noImpersonation();
    return undefined;
  }
  const { organizationId, userId, ...begun } = found;
  if (wanted !== null && wanted !== organizationId) throw notFound("organization", wanted);
  const membership = (await signIn.membershipsOf(userId)).find(
    (each) => each.organizationId === organizationId,
  );
  if (!membership) throw noImpersonation();
  const { role, customRole } = membership;
  const session = { id, authenticatedAt, isSingleSignOn: false };
  const impersonation = { ...begun, mayWrite: begun.mayWrite && impersonationMayWrite };
  return { organizationId, userId, role, customRole, apiKeyId: undefined, session, impersonation };
}

function noImpersonation(): DomainError {
  return new DomainError("not_found", "A platform operator belongs to no organization.", {
    remedy: "Begin an impersonation on the console's page /platform.",
  });
}
