import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Cluster } from "./cluster.ts";

export const getCluster = defineContract({
  name: "cluster.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}",
  summary: "Get a cluster",
  tag: "Clusters",
  permission: "cluster:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: Cluster,
});
