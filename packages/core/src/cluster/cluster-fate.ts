import { type Cluster, providerOf, retainDaysDefault } from "@millrace/domain";

/**
 * What the request to delete a cluster makes of it: it is deleted and its data kept for `days` (0:
 * both go), its data that was kept is purged, or it is deleted already.
 */
export interface ClusterFate {
  readonly kind: "delete" | "purge" | "deleted";
  readonly days: number;
}

/** `retainDays` is what the request says. */
export function fateOf(cluster: Cluster, retainDays: number | undefined): ClusterFate {
  if (cluster.phase === "PENDING_PURGE") {
    // Only whoever says so destroys what was to be kept: a request may come twice.
    return { kind: retainDays === 0 ? "purge" : "deleted", days: 0 };
  }
  // A cluster that never served holds nothing that somebody could want back, a half of one neither.
  const isHalf = cluster.observedRevision === 0 || cluster.dataDestroyedAt !== undefined;
  const days = isHalf ? 0 : (retainDays ?? retainDaysDefault(providerOf(cluster.region)));
  // What was deleted before has given its name away, perhaps to another: it does not take it again.
  return { kind: days === 0 && cluster.purgeAt !== undefined ? "purge" : "delete", days };
}
