import { type Cluster, DomainError } from "@millrace/domain";
import { assertPhase } from "./lock-cluster.ts";

/** Throws `cluster_not_ready` unless the cluster has a broker that does not serve. */
export function assertRecoverable(cluster: Cluster): void {
  assertPhase(
    cluster,
    ["DEGRADED", "FAILED", "PAUSED"],
    "Only a cluster whose broker does not serve can be recovered.",
  );
  if (cluster.placement !== undefined) return;
  throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} was never created.`, {
    remedy: "Retry its creation, or delete it.",
  });
}
