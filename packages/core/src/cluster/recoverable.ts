import { type Cluster, DomainError } from "@millrace/domain";
import { assertPhase } from "./lock-cluster.ts";

/** Throws `not_supported`, `cluster_serving` or `cluster_not_ready` unless the cluster has a broker that does not serve. */
export function assertRecoverable(cluster: Cluster): void {
  if (cluster.brokers > 1) {
    throw new DomainError("not_supported", `Cluster ${cluster.name} has several brokers.`, {
      remedy: "Their metadata is in PostgreSQL: restore it from a backup of that.",
    });
  }
  if (cluster.phase === "RUNNING") {
    throw new DomainError("cluster_serving", `The broker of cluster ${cluster.name} serves.`, {
      remedy:
        "A recovery is for a broker that lost its data. Pause the cluster first if it has to be recovered.",
    });
  }
  assertPhase(
    cluster,
    ["DEGRADED", "FAILED", "PAUSED"],
    "Only a cluster whose broker does not serve can be recovered.",
  );
  if (cluster.placement !== undefined) return;
  throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} was never created.`, {
    retryable: false,
    remedy: "Retry its creation, or delete it.",
  });
}
