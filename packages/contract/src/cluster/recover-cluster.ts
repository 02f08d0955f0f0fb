import { z } from "zod";
import { defineContract } from "../contract.ts";
import { ifMatch, pathId, validateOnly } from "../field.ts";
import { Operation } from "../operation/operation.ts";
import { ChangePreview } from "../plan/change-preview.ts";

export const recoverCluster = defineContract({
  name: "cluster.recover",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/recover",
  summary: "Recover a cluster",
  description: "Rebuilds a broker that lost its metadata, its write-ahead log or its volume.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  query: {
    validate_only: validateOnly.meta({
      description:
        "Returns the plan: what comes back and which acknowledged records are missing. Nothing " +
        "changes. On AWS the slot reports that, and only the operation can read it. The operation " +
        "always waits for the approval of its plan",
      override: { type: "boolean", anyOf: undefined },
    }),
  },
  headers: { if_match: ifMatch },
  response: z.union([ChangePreview, Operation]),
  answers: { 200: ChangePreview, 202: Operation },
});
