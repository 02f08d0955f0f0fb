import type { ChainHead, Database, NewChainCheck, TenantDatabase } from "@millrace/db";
import type { Clock, OrganizationId } from "@millrace/domain";
import type { Log } from "../engine/index.ts";

/** Time between two verifications of one organization's chain. */
const INTERVAL_MS = 24 * 60 * 60_000;
/** Time between two that begin at the first event; the others begin where the last intact one ended. */
const FULL_INTERVAL_MS = 7 * INTERVAL_MS;
/** Organizations found in one statement. */
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
 * Verifies the audit log of each organization that was not verified within a day and records what it found.
 * A chain that cannot be verified is logged and tried again in the next round; it does not hold up the
 * others. Several workers may do so at once: a chain is then verified twice.
 */
export async function verifyAuditChains(
  { db, clock, log }: ChainTools,
  signal?: AbortSignal,
): Promise<void> {
  const checkedAt = clock.now();
  const before = new Date(checkedAt.getTime() - INTERVAL_MS);
  for (let failed = 0; ; ) {
    const due = await db.fleet.audit.checkDue(before, BATCH_MAX, failed);
    if (due.length === 0) return;
    for (const organizationId of due) {
      if (signal?.aborted) return;
      try {
        await verifyOne({ db: db.tenant(organizationId), log }, organizationId, checkedAt);
      } catch (err) {
        failed += 1;
        log.error({ organization: organizationId, err }, "an audit log could not be verified");
      }
    }
  }
}

async function verifyOne(
  { db, log }: { db: Pick<TenantDatabase, "audit">; log: Log },
  organizationId: OrganizationId,
  checkedAt: Date,
): Promise<void> {
  const check = await verifyAuditChain(db, organizationId, checkedAt);
  await db.audit.recordCheck(organizationId, check);
  if (check.brokenSeq === undefined) return;
  const fields = { organization: organizationId, seq: String(check.brokenSeq) };
  log.error(fields, "the audit log was tampered with: this event is not what was written");
}

/**
 * The end of the chain, and the first event that was changed, removed or inserted. A chain that was broken
 * is verified from its first event until it is not.
 */
async function verifyAuditChain(
  { audit }: Pick<TenantDatabase, "audit">,
  organizationId: OrganizationId,
  checkedAt: Date,
): Promise<NewChainCheck> {
  const { intact, fullAt, isBroken } = await audit.checks(organizationId);
  // Events cut off at the end leave a chain that is intact: an earlier verification saw more of it.
  const isCut = intact !== undefined && !(await audit.has(organizationId, intact));
  const isFullDue = !fullAt || checkedAt.getTime() - fullAt.getTime() >= FULL_INTERVAL_MS;
  const from = intact && !isCut && !isBroken && !isFullDue ? intact : EMPTY;
  let head = from;
  let brokenSeq: bigint | undefined;
  for (;;) {
    const part = await audit.verify(organizationId, head, EVENTS_MAX);
    brokenSeq ??= part.brokenSeq;
    if (part.head.seq === head.seq) break;
    head = part.head;
  }
  if (isCut) brokenSeq ??= intact.seq;
  const { seq, hash } = head;
  return { seq, hash, fromSeq: from.seq, checkedAt, brokenSeq };
}
