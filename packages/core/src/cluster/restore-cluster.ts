import type { Operation, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { beginOperation } from "./begin-operation.ts";
import { assertPhase, type ClusterTarget, lockCluster } from "./lock-cluster.ts";

/**
 * Brings a deleted cluster back with the data that was kept. Throws `not_found`,
 * `precondition_failed`, `cluster_not_ready`, `cluster_busy`.
 */
export async function restoreCluster(
  core: Core,
  principal: Principal,
  target: ClusterTarget,
): Promise<Operation> {
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, target);
    await tx.operations.refuseBusy(cluster.id);
    assertPhase(
      cluster,
      ["PENDING_PURGE"],
      "Only a deleted cluster whose data is kept can be restored.",
    );
    return beginOperation(tx, core.clock, cluster, "cluster.restore");
  });
}
