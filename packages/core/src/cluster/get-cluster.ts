import type { Cluster, ClusterId, OperationId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireCluster } from "./require-cluster.ts";

/** A cluster with the operation at work on it, or the last one that was. */
export interface ClusterView {
  readonly cluster: Cluster;
  readonly operationId: OperationId | undefined;
}

/** Throws `not_found`. */
export async function getCluster(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<ClusterView> {
  const cluster = await requireCluster(core, principal, id);
  const latest = await core.db.operations.latestOf([cluster.id]);
  return { cluster, operationId: latest.get(cluster.id) };
}
