import type { Transaction } from "@millrace/db";
import { type Cluster, RETAIN_DAYS_DEFAULT } from "@millrace/domain";

/**
 * What a request to delete a cluster does: `delete` deletes it and keeps its data for `days` (0: the
 * data goes too; undefined: the retention of an earlier deletion stays), `purge` removes data that
 * was kept, `deleted` does nothing, since the cluster is deleted already.
 */
export interface ClusterDeletion {
  readonly kind: "delete" | "purge" | "deleted";
  readonly days: number | undefined;
}

/** `retainDays` is what the request says. */
export async function deletionOf(
  { operations }: Pick<Transaction, "operations">,
  cluster: Cluster,
  retainDays: number | undefined,
): Promise<ClusterDeletion> {
  if (cluster.phase === "PENDING_PURGE") {
    // Only whoever says so destroys what was to be kept: a request may come twice.
    return { kind: retainDays === 0 ? "purge" : "deleted", days: 0 };
  }
  const { purgeAt, dataDestroyedAt } = cluster;
  // A deletion that failed has said until when: one that says nothing of it takes nothing back.
  const isKept = purgeAt !== undefined && dataDestroyedAt === undefined;
  if (isKept && retainDays === undefined) return { kind: "delete", days: undefined };
  const days = await daysOf(operations, cluster, retainDays);
  // What was deleted before has given its name away, perhaps to another: it does not take it again.
  return { kind: days === 0 && purgeAt !== undefined ? "purge" : "delete", days };
}

async function daysOf(
  operations: Transaction["operations"],
  { id, observedRevision, dataDestroyedAt }: Cluster,
  retainDays: number | undefined,
): Promise<number> {
  // A half of the data is nothing that somebody could want back.
  if (dataDestroyedAt !== undefined) return 0;
  if (observedRevision > 0) return retainDays ?? RETAIN_DAYS_DEFAULT;
  // A broker that was not seen to serve in time may have served later, unseen. One that never began
  // holds nothing.
  const begun = retainDays !== undefined && (await operations.awaitedBroker(id));
  return begun ? retainDays : 0;
}
