import {
  brokerIdsOf,
  type Cluster,
  DomainError,
  isAwsRegion,
  notFound,
  type Operation,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { assertPhase, type ClusterTarget, lockCluster } from "./lock-cluster.ts";

export interface RestartClusterInput extends ClusterTarget {
  /** The only broker to restart; all of them, one after the other, if absent. */
  readonly brokerId?: number | undefined;
}

/**
 * Restarts one broker of a cluster, or all of them one at a time, with the program and the settings that are there now.
 * Throws `not_found` (cluster, broker), `not_supported` on AWS, `precondition_failed`, `cluster_not_ready`, `cluster_busy`.
 */
export async function restartCluster(
  core: Core,
  principal: Principal,
  { brokerId, ...target }: RestartClusterInput,
): Promise<Operation> {
  await cancelDriftCheck(core, principal, target.clusterId);
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, target);
    refuseAws(cluster);
    if (brokerId !== undefined && !brokerIdsOf(cluster).includes(brokerId)) {
      throw notFound("broker", `${brokerId}`);
    }
    await tx.operations.refuseBusy(cluster.id);
    assertPhase(cluster, ["RUNNING", "DEGRADED"], "Only a running cluster can be restarted.");
    return startOperation(tx, core.clock, cluster, "cluster.restart", { brokerId });
  });
}

function refuseAws({ name, region }: Cluster): void {
  if (!isAwsRegion(region)) return;
  throw new DomainError("not_supported", `Cluster ${name} cannot be restarted from here.`, {
    remedy: "Pause and resume the cluster, which replaces its instances.",
  });
}
