import type { ActiveImpersonation, Database, NewImpersonation } from "@millrace/db";
import { DomainError, notFound } from "@millrace/domain";
import { endImpersonation } from "./end-impersonation.ts";

/** Attempts, each of which ends an impersonation that the same session began meanwhile. */
const ATTEMPTS_MAX = 3;

export interface ImpersonationRequest extends NewImpersonation {
  readonly requestId: string;
  readonly clientAddress: string;
}

/**
 * Has the session of a platform operator act as a member, and writes that to the organization's audit log. The session's
 * active impersonation ends first, even if the new one then fails. `canWrite` is the installation's setting. Throws
 * `forbidden` for write access that it does not allow, `not_found`, and `rate_limited` where the session begins several
 * at the same time.
 */
export async function beginImpersonation(
  db: Database,
  request: ImpersonationRequest,
  canWrite: boolean,
): Promise<ActiveImpersonation> {
  if (request.mayWrite && !canWrite) {
    throw new DomainError(
      "forbidden",
      "Write access is turned off for impersonations in this installation.",
      { remedy: "Begin a read-only one, or set MILLRACE_IMPERSONATION_WRITE=1 for the API." },
    );
  }
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    await endImpersonation(db, request);
    const begun = await tryToBegin(db, request);
    if (begun) return begun;
  }
  throw new DomainError(
    "rate_limited",
    "This session is beginning several impersonations at the same time.",
    { remedy: "Begin one at a time.", retryAfterSeconds: 1 },
  );
}

/** Undefined where the session has begun another one meanwhile. */
async function tryToBegin(
  db: Database,
  { requestId, clientAddress, ...input }: ImpersonationRequest,
): Promise<ActiveImpersonation | undefined> {
  const { organizationId, memberEmail, reason, mayWrite } = input;
  return db.tenant(organizationId).transaction(async (tx) => {
    const begun = await tx.platform.begin(input);
    if (!begun) {
      if (await tx.platform.active(input.sessionId)) return undefined;
      const organization = await tx.organizations.get(organizationId);
      if (!organization) throw notFound("organization", organizationId);
      throw notFound("member", memberEmail ?? "with the role owner");
    }
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
