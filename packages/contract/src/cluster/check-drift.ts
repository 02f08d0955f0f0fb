import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const checkDrift = defineContract({
  name: "cluster.checkDrift",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/check-drift",
  summary: "Check for drift",
  description: "Starts an operation that compares the resources with the spec.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  response: Operation,
});
