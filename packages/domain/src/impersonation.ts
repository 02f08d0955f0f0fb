import type { ImpersonationId, UserId } from "./id.ts";
import type { Permission } from "./role.ts";

/** How long an impersonation lasts at most; the database sets its end. */
export const IMPERSONATION_MINUTES = 30;
/** Impersonations that a platform operator begins per hour: one every three minutes. */
export const IMPERSONATIONS_PER_HOUR_MAX = 20;
/** Characters of the reason: at least a ticket's number and a word, at most a short paragraph. */
export const IMPERSONATION_REASON_LENGTH_MIN = 10;
export const IMPERSONATION_REASON_LENGTH_MAX = 500;

/** A platform operator who acts as a member of an organization. */
export interface Impersonation {
  readonly id: ImpersonationId;
  readonly operator: { readonly id: UserId; readonly email: string };
  readonly reason: string;
  readonly mayWrite: boolean;
  readonly expiresAt: Date;
}

/** Customers' records, and texts that hold invitation links. */
const WITHHELD_READS: ReadonlySet<Permission> = new Set(["record:read", "mail:read"]);
/**
 * What an impersonation with write access may change: how a cluster runs. Nothing here grants access that outlasts it, opens
 * a network or a listener, or creates or deletes topics, clusters or records.
 */
const WRITES: ReadonlySet<Permission> = new Set([
  "operation:cancel",
  "operation:write",
  "quota:write",
  "tuning:write",
  "benchmark:run",
]);

/** Whether an impersonation leaves the member's permission in force. */
export function allowsImpersonated(
  { mayWrite }: Pick<Impersonation, "mayWrite">,
  permission: Permission,
): boolean {
  if (permission.endsWith(":read")) return !WITHHELD_READS.has(permission);
  return mayWrite && WRITES.has(permission);
}
