import type { ActiveImpersonation, Database } from "@millrace/db";
import type { SessionId } from "@millrace/domain";

export interface EndImpersonationInput {
  readonly sessionId: SessionId;
  readonly requestId: string;
  readonly clientAddress: string;
}

/**
 * Ends the session's active impersonation, and writes that to the organization's audit log. `active` is that impersonation
 * where the session has ended since.
 */
export async function endImpersonation(
  db: Database,
  { sessionId, requestId, clientAddress }: EndImpersonationInput,
  active?: ActiveImpersonation,
): Promise<void> {
  const found = active ?? (await db.platform.active(sessionId));
  if (!found) return;
  const { id, organizationId, userId, operator } = found;
  await db.tenant(organizationId).transaction(async (tx) => {
    if (!(await tx.platform.end(sessionId, id))) return;
    await tx.audit.append({
      ...{ organizationId, requestId, clientAddress },
      actor: { kind: "user", id: operator.id, name: operator.email },
      ...{ method: "impersonation.end", authMethod: "session", targetId: userId },
      ...{ result: "success", errorCode: undefined },
      ...{ request: undefined, before: undefined, after: undefined },
    });
  });
}
