import {
  DomainError,
  type Operation,
  type Principal,
  providerOf,
  purgeAt,
  retainDaysDefault,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { beginOperation } from "./begin-operation.ts";
import { type ClusterTarget, lockCluster } from "./lock-cluster.ts";

export interface DeleteClusterInput extends ClusterTarget {
  /** Days for which the data can be restored; undefined: as usual where the cluster runs. */
  readonly retainDays?: number | undefined;
}

/**
 * Accepts the deletion of a cluster, and of its data at once or after some days; of one that is
 * deleted already, that its data goes now. Throws `not_found`, `precondition_failed`,
 * `deletion_protected`, `cluster_busy` while another operation runs.
 */
export async function deleteCluster(
  core: Core,
  principal: Principal,
  input: DeleteClusterInput,
): Promise<Operation> {
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, input);
    if (cluster.deletionProtection) {
      throw new DomainError("deletion_protected", `Cluster ${cluster.name} is protected.`, {
        remedy: "Set deletion_protection to false first, if it is really to go.",
      });
    }
    if (cluster.phase === "PENDING_PURGE") {
      return beginOperation(tx, core.clock, cluster, "cluster.purge");
    }
    const days = input.retainDays ?? retainDaysDefault(providerOf(cluster.region));
    // A cluster that never served holds nothing that somebody could want back.
    const until = cluster.observedRevision === 0 ? undefined : purgeAt(core.clock.now(), days);
    const operation = await beginOperation(tx, core.clock, cluster, "cluster.delete");
    const change = { purgeAt: until ?? null, needsOperation: false };
    await tx.clusters.changeSpec(cluster.id, change);
    return operation;
  });
}
