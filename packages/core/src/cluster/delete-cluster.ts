import { type Cluster, DomainError, type Operation, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { deletionOf } from "./cluster-deletion.ts";
import { type ClusterTarget, lockCluster } from "./lock-cluster.ts";

export interface DeleteClusterInput extends ClusterTarget {
  /**
   * Days for which the data can be restored; undefined: as an earlier deletion that failed has said,
   * else as usual where the cluster runs.
   */
  readonly retainDays?: number | undefined;
}

/**
 * Accepts the deletion of a cluster, and of its data at once or after some days. One that is deleted
 * already answers with that deletion, so that a request that is sent again does no more than the
 * first; with 0 days its data goes now. Throws `not_found`, `precondition_failed`,
 * `deletion_protected`, `cluster_not_ready`, `cluster_busy` while another operation runs.
 */
export async function deleteCluster(
  core: Core,
  principal: Principal,
  input: DeleteClusterInput,
): Promise<Operation> {
  await cancelDriftCheck(core, principal, input.clusterId);
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, input);
    if (cluster.deletionProtection) throw protectedFromDeletion(cluster);
    const { kind, days } = await deletionOf(tx, cluster, input.retainDays);
    if (kind === "purge") return startOperation(tx, core.clock, cluster, "cluster.purge");
    if (kind === "deleted") {
      const done = await tx.operations.latest(cluster.id, "cluster.delete");
      if (done) return done;
      throw deletedAlready(cluster);
    }
    return startOperation(tx, core.clock, cluster, "cluster.delete", { retainDays: days });
  });
}

function deletedAlready({ name }: Cluster): DomainError {
  return new DomainError("cluster_not_ready", `Cluster ${name} is already deleted.`, {
    retryable: false,
    remedy: "Restore it, or delete it with retain_days 0 to purge its data now.",
  });
}

export function protectedFromDeletion({ name }: { readonly name: string }): DomainError {
  return new DomainError("deletion_protected", `Deletion protection of cluster ${name} is on.`, {
    remedy: "Set deletion_protection to false first.",
  });
}
