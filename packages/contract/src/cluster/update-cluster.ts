import { CLUSTER_SIZE_NAMES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { ifMatch, pathId, requireApproval, validateOnly } from "../field.ts";
import { ChangePreview } from "../plan/change-preview.ts";
import { networkPatch, walInput } from "./aws-spec.ts";
import { Cluster, ClusterAccepted, clusterName, labelName, labelValue } from "./cluster.ts";

export const updateCluster = defineContract({
  name: "cluster.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}",
  summary: "Change a cluster; 202 where it takes an operation, 200 where it does not",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  query: { validate_only: validateOnly },
  headers: { if_match: ifMatch },
  body: {
    name: clusterName.optional(),
    labels: z
      .record(labelName, labelValue.nullable())
      .optional()
      .meta({ description: "null takes a label away; labels that are absent stay" }),
    size: z.enum(CLUSTER_SIZE_NAMES).optional(),
    deletion_protection: z.boolean().optional(),
    wal: walInput.optional().meta({ description: "AWS only; in place: a volume only grows" }),
    network: networkPatch.optional().meta({ description: "AWS only" }),
    paused: z.boolean().optional().meta({ description: "By itself, as pause and resume" }),
    require_approval: requireApproval,
  },
  response: z.union([ChangePreview, ClusterAccepted, Cluster]),
  answers: { 200: z.union([ChangePreview, Cluster]), 202: ClusterAccepted },
});
