/**
 * What people do with their own accounts, in the audit log of every organization they belong to: sign-ins,
 * also failed ones, and changes of passwords and second factors.
 */
import type { Database } from "@millrace/db";
import type { AuditDetail, AuditResult, AuthMethod, ErrorCode, UserId } from "@millrace/domain";

/** Organizations that learn of one event: a person belongs to few. */
const ORGANIZATIONS_MAX = 20;
/** Failures of one account that are kept per minute: whoever guesses passwords does not fill the log. */
const FAILURES_PER_MINUTE_MAX = 5;
const MINUTE_MS = 60_000;
const ADDRESS_LENGTH_MAX = 64;

export interface IdentityEvent {
  readonly user: { readonly id: UserId; readonly email: string };
  /** Named as the contracts are, such as `session.create`. */
  readonly method: string;
  readonly authMethod: AuthMethod;
  readonly result: AuditResult;
  readonly errorCode: ErrorCode | undefined;
  readonly request: AuditDetail | undefined;
  readonly requestId: string;
  readonly clientAddress: string;
}

/** Throws where the log cannot be written: what is not in it is not answered with success. */
export async function recordIdentityEvent(db: Database, event: IdentityEvent): Promise<void> {
  const { user, method, authMethod, result, errorCode, request, requestId } = event;
  if (result === "failure") {
    const key = `audit|identity|${user.id}`;
    const failures = await db.rateLimits.count(key, MINUTE_MS, Date.now());
    if (failures > FAILURES_PER_MINUTE_MAX) return;
  }
  const memberships = await db.signIn.membershipsOf(user.id);
  for (const { organizationId } of memberships.slice(0, ORGANIZATIONS_MAX)) {
    await db.tenant(organizationId).audit.append({
      ...{ organizationId, authMethod, method, result, errorCode, request, requestId },
      actor: { kind: "user", id: user.id, name: user.email },
      clientAddress: event.clientAddress.slice(0, ADDRESS_LENGTH_MAX),
      ...{ targetId: user.id, before: undefined, after: undefined },
    });
  }
}
