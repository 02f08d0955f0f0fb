import { type Cluster, type Operation, providerOf, retainDaysDefault } from "@millrace/domain";
import { isWhole } from "./leave-operation.ts";

/**
 * What the request to delete a cluster makes of it: it is deleted and its data kept for `days` (0:
 * both go), its data that was kept is purged, or it is deleted already.
 */
export interface ClusterFate {
  readonly kind: "delete" | "purge" | "deleted";
  readonly days: number;
}

/** `last` is the cluster's last operation but for looks; `retainDays` is what the request says. */
export function fateOf(
  cluster: Cluster,
  last: Operation | undefined,
  retainDays: number | undefined,
): ClusterFate {
  if (cluster.phase === "PENDING_PURGE") {
    // Only whoever says so destroys what was to be kept: a request may come twice.
    return { kind: retainDays === 0 ? "purge" : "deleted", days: 0 };
  }
  // A cluster that never served holds nothing that somebody could want back, a half of one neither.
  if (cluster.observedRevision === 0 || !isWhole(cluster, last)) return { kind: "delete", days: 0 };
  const days = retainDays ?? retainDaysDefault(providerOf(cluster.region));
  return { kind: "delete", days };
}
