import { isDeletion, type Operation, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { withExistingId } from "./create-cluster.ts";
import { assertPhase, type ClusterTarget, lockCluster } from "./lock-cluster.ts";
import { requireCluster } from "./require-cluster.ts";

/**
 * Brings a deleted cluster back with the data that was kept, or one whose deletion failed before it
 * took anything away. Throws `not_found`,
 * `precondition_failed`, `cluster_not_ready`, `cluster_busy`, `cluster_name_taken` where the name
 * was given away meanwhile.
 */
export async function restoreCluster(
  core: Core,
  principal: Principal,
  target: ClusterTarget,
): Promise<Operation> {
  const { environmentId, name } = await requireCluster(core, principal, target.clusterId);
  await cancelDriftCheck(core, principal, target.clusterId);
  try {
    return await core.db.transaction(async (tx) => {
      const cluster = await lockCluster(tx, principal, target);
      await tx.operations.refuseBusy(cluster.id);
      const last = await tx.operations.latest(cluster.id);
      const outlived =
        last !== undefined && isDeletion(last.kind) && cluster.dataDestroyedAt === undefined;
      assertPhase(cluster, outlived ? ["PENDING_PURGE", "FAILED"] : ["PENDING_PURGE"], REMEDY);
      return startOperation(tx, core.clock, cluster, "cluster.restore");
    });
  } catch (error) {
    throw await withExistingId(
      core,
      error,
      environmentId,
      name,
      (existing) => `Rename or delete cluster ${existing} first.`,
    );
  }
}

const REMEDY = "Only a deleted cluster whose data is kept can be restored.";
