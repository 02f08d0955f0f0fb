import { defineContract } from "../contract.ts";
import { idField } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Cluster } from "./cluster.ts";

export const listClusters = defineContract({
  name: "cluster.list",
  method: "GET",
  path: "/v1/clusters",
  summary: "List clusters",
  description: "Newest first.",
  tag: "Clusters",
  permission: "cluster:read",
  successStatus: 200,
  query: { ...pageQuery, environment_id: idField("env").optional() },
  response: pageOf(Cluster).meta({ id: "ClusterPage" }),
});
