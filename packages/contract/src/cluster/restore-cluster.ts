import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const restoreCluster = defineContract({
  name: "cluster.restore",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/restore",
  summary: "Restore a cluster",
  description: "Brings back a deleted cluster until its data is purged.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
