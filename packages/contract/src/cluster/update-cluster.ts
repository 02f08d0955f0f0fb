import { BROKERS_PER_CLUSTER_MAX, CLUSTER_SIZE_NAMES } from "@millrace/domain";
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
  summary: "Update a cluster",
  description: "Answers 202 with an operation where resources change, else 200.",
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
      .meta({ description: "null removes a label; absent labels stay" }),
    size: z.enum(CLUSTER_SIZE_NAMES).optional(),
    deletion_protection: z.boolean().optional(),
    plaintext_listener: z
      .boolean()
      .optional()
      .meta({
        description:
          "false: clients connect with TLS and a password only; can be false in the region local only. " +
          "A change restarts the broker",
      }),
    brokers: z
      .int()
      .min(1)
      .max(BROKERS_PER_CLUSTER_MAX)
      .optional()
      .meta({
        description:
          "Starts new brokers, or moves the partitions of the last ones to the others and stops them. Cannot change " +
          "from or to 1",
      }),
    wal: walInput.optional().meta({
      description:
        "AWS only; changed in place, a volume can only grow. With several brokers its type and size stay",
    }),
    network: networkPatch.optional().meta({ description: "AWS only" }),
    paused: z
      .boolean()
      .optional()
      .meta({ description: "Pauses or resumes the cluster; cannot be combined with other fields" }),
    require_approval: requireApproval,
  },
  response: z.union([ChangePreview, ClusterAccepted, Cluster]),
  answers: { 200: z.union([ChangePreview, Cluster]), 202: ClusterAccepted },
});
