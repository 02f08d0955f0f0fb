import type { Operation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { assertPhase, type ClusterTarget, lockCluster } from "./lock-cluster.ts";

/**
 * Pauses a cluster: no broker runs, all data is kept. Throws `not_found`,
 * `precondition_failed`, `cluster_not_ready`, `cluster_busy`.
 */
export async function pauseCluster(
  core: Core,
  principal: Principal,
  target: ClusterTarget,
): Promise<Operation> {
  await cancelDriftCheck(core, principal, target.clusterId);
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, target);
    await tx.operations.refuseBusy(cluster.id);
    assertPhase(cluster, ["RUNNING", "DEGRADED"], "Only a running cluster can be paused.");
    return startOperation(tx, core.clock, cluster, "cluster.pause");
  });
}
