import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const resumeCluster = defineContract({
  name: "cluster.resume",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/resume",
  summary: "Resume a paused cluster",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
