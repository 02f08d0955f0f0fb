import {
  type ClusterId,
  DomainError,
  isId,
  notFound,
  type Operation,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { readyCondition } from "./cluster-condition.ts";
import { clusterEtag } from "./cluster-etag.ts";

export interface DeleteClusterInput {
  readonly clusterId: ClusterId;
  /** Deletes only while the cluster's entity tag is this one. */
  readonly ifMatch?: string | undefined;
}

/**
 * Accepts the deletion of a cluster with its data. Throws `not_found`, `precondition_failed`,
 * `cluster_busy` while another operation runs.
 */
export async function deleteCluster(
  core: Core,
  principal: Principal,
  { clusterId, ifMatch }: DeleteClusterInput,
): Promise<Operation> {
  if (!isId("clu", clusterId)) throw notFound("cluster", clusterId);
  const { organizationId } = principal;
  return core.db.transaction(async (tx) => {
    const cluster = await tx.clusters.lock(organizationId, clusterId);
    if (!cluster) throw notFound("cluster", clusterId);
    if (ifMatch !== undefined && ifMatch !== "*" && ifMatch !== clusterEtag(cluster)) {
      throw new DomainError("precondition_failed", "The cluster has changed since it was read.", {
        remedy: "Read the cluster again and decide anew.",
      });
    }
    const operation = await tx.operations.create({
      organizationId,
      clusterId,
      kind: "cluster.delete",
    });
    await tx.clusters.changePhase(clusterId, {
      to: "DELETING",
      conditions: readyCondition(core.clock, "False", "Deleting", "The cluster is being deleted."),
    });
    await tx.deliver(operation.id);
    return operation;
  });
}
