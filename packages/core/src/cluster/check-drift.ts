import type { Operation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { assertPhase, type ClusterTarget, lockCluster } from "./lock-cluster.ts";

/**
 * Looks how what exists differs from what was made. Throws `not_found`,
 * `precondition_failed`, `cluster_not_ready`, `cluster_busy`.
 */
export async function checkDrift(
  core: Core,
  principal: Principal,
  target: ClusterTarget,
): Promise<Operation> {
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, target);
    await tx.operations.refuseBusy(cluster.id);
    assertPhase(
      cluster,
      ["RUNNING", "DEGRADED", "PAUSED"],
      "Wait until the cluster is running; its operation shows the progress.",
    );
    return startOperation(tx, core.clock, cluster, "cluster.check_drift");
  });
}
