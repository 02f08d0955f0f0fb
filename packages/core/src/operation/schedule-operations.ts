import type { Database } from "@millrace/db";
import { type Clock, type Cluster, DomainError, type OperationKind } from "@millrace/domain";
import type { Log } from "../engine/index.ts";
import { recordUnfinished, startOperation } from "../engine/index.ts";

export interface ScheduleTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly log?: Log;
}

export interface ScheduleOptions {
  /** Time between two drift checks at each cluster. */
  readonly driftIntervalMs: number;
}

/** Operations begun in one round for each reason: a backlog must not be one burst. */
const BATCH_MAX = 10;
/** Drift checks under way at any time: as many as one worker has turns for. */
const DRIFT_CHECKS_MAX = 2;
/** Clusters among which those to look at are found: some of them have a while to go. */
const DRIFT_CHECK_CANDIDATES_MAX = 200;
/** A plan that nobody approved in this time is not what anybody would decide on now. */
export const APPROVAL_WAIT_MS_MAX = 72 * 60 * 60_000;
/**
 * A purge that failed is begun again after this long, and after twice as long each time that it fails
 * again: what cannot succeed is not begun a hundred times a day.
 */
const PURGE_RETRY = { firstMs: 10 * 60_000, maxMs: 24 * 60 * 60_000 };
/** Drift checks come several times a day for each cluster: done ones are kept for so long. */
const DRIFT_CHECKS_KEPT_MS = 30 * 24 * 60 * 60_000;
const DRIFT_CHECKS_DELETED_MAX = 100;
/**
 * Drift checks are spread over this part of the interval by the cluster's id, so that clusters which
 * were created together are not always checked together.
 */
const JITTER = 0.2;

/**
 * Begins what is due: purges of deleted clusters' data, drift checks, of which it removes old
 * ones. Ends operations whose approval never came. Several workers may do so at once: of an operation begun twice one is refused.
 */
export async function scheduleOperations(
  tools: ScheduleTools,
  { driftIntervalMs }: ScheduleOptions,
): Promise<void> {
  const { db, clock } = tools;
  const now = clock.now();
  for (const cluster of await db.fleet.clusters.purgeDue(now, PURGE_RETRY, BATCH_MAX)) {
    await begin(tools, cluster, "cluster.purge");
  }
  await startDriftChecks(tools, now, driftIntervalMs);
  await db.fleet.operations.deleteOldDriftChecks(
    new Date(now.getTime() - DRIFT_CHECKS_KEPT_MS),
    DRIFT_CHECKS_DELETED_MAX,
  );
  await cancelUnapproved(tools, new Date(now.getTime() - APPROVAL_WAIT_MS_MAX));
}

async function startDriftChecks(tools: ScheduleTools, now: Date, driftIntervalMs: number) {
  const { db } = tools;
  const room = DRIFT_CHECKS_MAX - (await db.fleet.operations.countUnderWay("cluster.check_drift"));
  if (room <= 0) return;
  const lookedAtBefore = new Date(now.getTime() - driftIntervalMs * (1 - JITTER));
  const candidates = await db.fleet.clusters.driftDue(lookedAtBefore, DRIFT_CHECK_CANDIDATES_MAX);
  const due = candidates.filter(({ id, updatedAt, drift }) => {
    if (drift.status === "unknown" && drift.operationId !== undefined) return true;
    const { checkedAt = updatedAt } = drift;
    return isPast(checkedAt, now, driftIntervalMs * (1 - JITTER * fractionOf(id)));
  });
  for (const cluster of due.slice(0, room)) await begin(tools, cluster, "cluster.check_drift");
}

async function begin(
  { db, clock, log }: ScheduleTools,
  { id, organizationId, phase }: Cluster,
  kind: OperationKind,
): Promise<void> {
  try {
    await db.tenant(organizationId).transaction(async (tx) => {
      const cluster = await tx.clusters.lock(organizationId, id);
      // Somebody may have restored it, protected it, or begun something, since the list was made.
      if (cluster?.phase !== phase) return;
      if (kind === "cluster.purge" && !isPurgeDue(cluster, clock.now())) return;
      await startOperation(tx, clock, cluster, kind);
    });
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    log?.info({ cluster: id, kind, code: error.code }, "scheduled operation postponed");
  }
}

async function cancelUnapproved({ db, clock }: ScheduleTools, since: Date): Promise<void> {
  for (const operation of await db.fleet.operations.waitingSince(since, BATCH_MAX)) {
    await db.tenant(operation.organizationId).transaction(async (tx) => {
      if ((await tx.operations.requestCancel(operation.id)) !== "cancelled") return;
      const cluster = await tx.clusters.load(operation.clusterId);
      const left = await tx.operations.load(operation.id);
      const message = "The plan was not approved in time.";
      if (cluster && left)
        await recordUnfinished(tx, clock, cluster, left, { reason: "NotApproved", message });
    });
  }
}

function isPurgeDue({ purgeAt, deletionProtection }: Cluster, now: Date): boolean {
  return purgeAt !== undefined && purgeAt <= now && !deletionProtection;
}

function isPast(at: Date, now: Date, afterMs: number): boolean {
  return now.getTime() - at.getTime() >= afterMs;
}

/** From 0 to 1, the same for the same id. */
function fractionOf(id: string): number {
  let hash = 0;
  for (const character of id) hash = (hash * 31 + character.charCodeAt(0)) % 1_000_003;
  return hash / 1_000_003;
}
