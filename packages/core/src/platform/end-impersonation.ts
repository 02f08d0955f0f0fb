import type { ActiveImpersonation, Database } from "@millrace/db";
import type { SessionId } from "@millrace/domain";

export interface EndImpersonationInput {
  readonly sessionId: SessionId;
  readonly requestId: string;
  readonly clientAddress: string;
}

/**
 * Ends what the session acts as, and writes that to the organization's audit log. `active` is what it acted as, where
 * the session has ended since.
 */
export async function endImpersonation(
  db: Database,
  { sessionId, requestId, clientAddress }: EndImpersonationInput,
  active?: ActiveImpersonation,
): Promise<void> {
  const { organizationId, userId, operator } =
    active ?? (await db.platform.active(sessionId)) ?? {};
  if (organizationId === undefined || operator === undefined) return;
  await db.tenant(organizationId).transaction(async (tx) => {
    if (!(await tx.platform.end(sessionId))) return;
    await tx.audit.append({
      ...{ organizationId, requestId, clientAddress },
      actor: { kind: "user", id: operator.id, name: operator.email },
      ...{ method: "impersonation.end", authMethod: "session", targetId: userId },
      ...{ result: "success", errorCode: undefined },
      ...{ request: undefined, before: undefined, after: undefined },
    });
  });
}
