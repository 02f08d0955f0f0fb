import { type Cluster, type ClusterId, DomainError, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { lockCluster } from "./lock-cluster.ts";

export interface AcceptDriftInput {
  readonly clusterId: ClusterId;
  /** Of the drift that somebody looked at. */
  readonly digest: string;
}

/**
 * Lets this very drift stand: it is not shown as one any more, until something else differs. The next
 * change of the cluster undoes it, since what was made by hand is in no spec. Throws `not_found`,
 * `plan_changed` where the cluster does not drift so.
 */
export async function acceptDrift(
  core: Core,
  principal: Principal,
  { clusterId, digest }: AcceptDriftInput,
): Promise<Cluster> {
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, { clusterId });
    const { drift } = cluster;
    if (drift.digest !== digest) {
      throw new DomainError("plan_changed", `Cluster ${cluster.name} has other drift now.`, {
        remedy: "Read the drift again and accept its digest.",
      });
    }
    await tx.clusters.recordDrift(cluster.id, { ...drift, status: "accepted" });
    return { ...cluster, drift: { ...drift, status: "accepted" } };
  });
}
