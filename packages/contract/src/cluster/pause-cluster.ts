import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const pauseCluster = defineContract({
  name: "cluster.pause",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/pause",
  summary: "Pause a cluster",
  description: "Stops the broker and keeps all data.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
