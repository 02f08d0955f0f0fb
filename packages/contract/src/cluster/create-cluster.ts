import { BROKERS_PER_CLUSTER_MAX, CLUSTER_SIZE_NAMES, REGIONS, ZONES_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { idField, requireApproval, validateOnly } from "../field.ts";
import { ChangePreview } from "../plan/change-preview.ts";
import { networkInput, storageInput, walInput } from "./aws-spec.ts";
import { ClusterAccepted, clusterName, labels } from "./cluster.ts";

export const createCluster = defineContract({
  name: "cluster.create",
  method: "POST",
  path: "/v1/clusters",
  summary: "Create a cluster",
  tag: "Clusters",
  permission: "cluster:create",
  successStatus: 202,
  example: { name: "orders", region: "local", size: "dev", labels: { team: "payments" } },
  query: { validate_only: validateOnly },
  body: {
    name: clusterName,
    region: z.enum(REGIONS).optional().meta({
      description: "local by default; required where the control plane runs on AWS",
    }),
    size: z.enum(CLUSTER_SIZE_NAMES).default("dev"),
    environment_id: idField("env")
      .optional()
      .meta({ description: "The oldest environment by default" }),
    labels: labels.optional(),
    deletion_protection: z
      .boolean()
      .default(false)
      .meta({ description: "Blocks deletion from the console and API" }),
    plaintext_listener: z.boolean().default(true).meta({
      description:
        "false: clients connect with TLS and a password only; can be false in the region local only",
    }),
    brokers: z
      .int()
      .min(1)
      .max(BROKERS_PER_CLUSTER_MAX)
      .default(1)
      .meta({
        description:
          "Several brokers take over from each other, and their number can be changed; one broker stays " +
          "alone. On AWS, several are spread over at least two zones and share a database of RDS",
      }),
    zones: z
      .int()
      .min(1)
      .max(ZONES_MAX)
      .optional()
      .meta({ description: "All zones of the region by default" }),
    wal: walInput
      .nullable()
      .optional()
      .meta({ description: "AWS only; defaults come from the size" }),
    network: networkInput.nullable().optional().meta({ description: "AWS only" }),
    storage: storageInput.nullable().optional().meta({ description: "AWS only" }),
    require_approval: requireApproval,
  },
  response: z.union([ChangePreview, ClusterAccepted]),
  answers: { 200: ChangePreview, 202: ClusterAccepted },
});
