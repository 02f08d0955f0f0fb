import type { ActiveImpersonation, Database, NewImpersonation } from "@millrace/db";
import { DomainError, notFound } from "@millrace/domain";

export interface ImpersonationRequest extends NewImpersonation {
  readonly requestId: string;
  readonly clientAddress: string;
}

/**
 * Has the session of a platform operator act as a member, and writes that to the organization's audit log. `canWrite` is
 * the installation's setting. Throws `forbidden` for write access that it does not allow, `not_found`.
 */
export async function beginImpersonation(
  db: Database,
  { requestId, clientAddress, ...input }: ImpersonationRequest,
  canWrite: boolean,
): Promise<ActiveImpersonation> {
  const { organizationId, memberEmail, reason, mayWrite } = input;
  if (mayWrite && !canWrite) {
    throw new DomainError("forbidden", "This installation allows no impersonation that writes.", {
      remedy: "Begin a read-only one, or set MILLRACE_IMPERSONATION_WRITE=1 for the API.",
    });
  }
  return db.tenant(organizationId).transaction(async (tx) => {
    const begun = await tx.platform.begin(input);
    if (!begun) throw notFound("member", memberEmail ?? organizationId);
    const { operator, userEmail, expiresAt } = begun;
    await tx.audit.append({
      ...{ organizationId, requestId, clientAddress },
      actor: { kind: "user", id: operator.id, name: operator.email },
      ...{ method: "impersonation.begin", authMethod: "session", targetId: begun.userId },
      ...{ result: "success", errorCode: undefined, before: undefined },
      request: { reason, write: mayWrite },
      after: { member: userEmail, expiresAt: expiresAt.toISOString() },
    });
    return begun;
  });
}
