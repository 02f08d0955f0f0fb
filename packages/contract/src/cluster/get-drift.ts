import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Drift } from "./drift.ts";

export const getDrift = defineContract({
  name: "cluster.drift",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/drift",
  summary: "Get drift",
  description: "The result of the last drift check.",
  tag: "Clusters",
  permission: "cluster:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: Drift,
});
