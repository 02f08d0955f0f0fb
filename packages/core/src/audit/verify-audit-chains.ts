import type { ChainHead, Database, TenantDatabase } from "@millrace/db";
import type { Clock, OrganizationId } from "@millrace/domain";
import type { Log } from "../engine/index.ts";

/** Time between two verifications of one organization's chain. */
const INTERVAL_MS = 24 * 60 * 60_000;
/** Organizations verified in one round. */
const BATCH_MAX = 20;
/** Events verified in one statement: well below the time that a transaction may take. */
const EVENTS_MAX = 5_000;
const EMPTY: ChainHead = { seq: 0n, hash: new Uint8Array() };

export interface ChainTools {
  readonly db: Pick<Database, "fleet" | "tenant">;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Verifies the audit log of each organization that was not verified within a day, from its first event, and
 * records what it found. Several workers may do so at once: a chain is then verified twice.
 */
export async function verifyAuditChains(
  { db, clock, log }: ChainTools,
  signal?: AbortSignal,
): Promise<void> {
  const checkedAt = clock.now();
  const due = await db.fleet.audit.checkDue(new Date(checkedAt.getTime() - INTERVAL_MS), BATCH_MAX);
  for (const organizationId of due) {
    if (signal?.aborted) return;
    const found = await verifyAuditChain(db.tenant(organizationId), organizationId);
    await db.tenant(organizationId).audit.recordCheck(organizationId, { ...found, checkedAt });
    if (found.brokenSeq === undefined) continue;
    const fields = { organization: organizationId, seq: String(found.brokenSeq) };
    log.error(fields, "the audit log was tampered with: this event is not what was written");
  }
}

/** The end of the chain, and the first event that was changed, removed or inserted. */
export async function verifyAuditChain(
  { audit }: Pick<TenantDatabase, "audit">,
  organizationId: OrganizationId,
): Promise<ChainHead & { readonly brokenSeq: bigint | undefined }> {
  const known = await audit.lastCheck(organizationId);
  let head = EMPTY;
  let brokenSeq: bigint | undefined;
  for (;;) {
    const part = await audit.verify(organizationId, head, EVENTS_MAX);
    brokenSeq ??= part.brokenSeq;
    if (part.head.seq === head.seq) break;
    head = part.head;
  }
  // Events cut off at the end leave a chain that is intact: the last verification saw more of it.
  if (brokenSeq === undefined && known && !(await audit.has(organizationId, known))) {
    brokenSeq = known.seq;
  }
  return { ...head, brokenSeq };
}
