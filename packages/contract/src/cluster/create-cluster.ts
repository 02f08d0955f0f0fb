import { CLUSTER_NAME_PATTERN, CLUSTER_SIZE_NAMES, REGIONS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { idField } from "../field.ts";
import { Cluster, labels } from "./cluster.ts";

export const createCluster = defineContract({
  name: "cluster.create",
  method: "POST",
  path: "/v1/clusters",
  summary: "Create a cluster",
  tag: "Clusters",
  permission: "cluster:create",
  successStatus: 202,
  body: {
    name: z
      .string()
      .regex(
        CLUSTER_NAME_PATTERN,
        "lower-case letters, digits and inner hyphens, beginning with a letter, at most 63",
      ),
    region: z.enum(REGIONS).default("local"),
    size: z.enum(CLUSTER_SIZE_NAMES).default("dev"),
    environment_id: idField("env").optional().meta({ description: "The first one by default" }),
    labels: labels.optional(),
  },
  response: Cluster.extend({ operation_id: z.string() }).meta({ id: "ClusterAccepted" }),
});
