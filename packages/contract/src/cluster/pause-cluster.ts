import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const pauseCluster = defineContract({
  name: "cluster.pause",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/pause",
  summary: "Pause a cluster: no broker runs, all data is kept",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
