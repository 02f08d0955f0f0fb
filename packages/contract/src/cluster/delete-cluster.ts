import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const deleteCluster = defineContract({
  name: "cluster.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}",
  summary: "Delete a cluster and its data",
  tag: "Clusters",
  permission: "cluster:delete",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: {
    if_match: z
      .string()
      .max(100)
      .optional()
      .meta({ description: "metadata.etag; the call fails with 412 when the cluster has changed" }),
  },
  response: Operation,
});
