import type { Operation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { type ClusterTarget, lockCluster } from "./lock-cluster.ts";
import { assertRecoverable } from "./recoverable.ts";

/**
 * Recovers a cluster whose broker lost its metadata, its write-ahead log or its volume, from what is
 * in the bucket. The operation plans first and waits: the plan says which acknowledged records are
 * missing, and nothing changes before it is approved. Throws `not_found`, `precondition_failed`,
 * `cluster_serving`, `cluster_not_ready`, `cluster_busy`.
 */
export async function recoverCluster(
  core: Core,
  principal: Principal,
  target: ClusterTarget,
): Promise<Operation> {
  await cancelDriftCheck(core, principal, target.clusterId);
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, target);
    await tx.operations.refuseBusy(cluster.id);
    assertRecoverable(cluster);
    return startOperation(tx, core.clock, cluster, "cluster.recover", { requireApproval: true });
  });
}
