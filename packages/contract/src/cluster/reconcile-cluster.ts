import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const reconcileCluster = defineContract({
  name: "cluster.reconcile",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/reconcile",
  summary: "Undo drift",
  description: "Restores the resources to the cluster's spec.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
