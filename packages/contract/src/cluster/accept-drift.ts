import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Drift } from "./drift.ts";

export const acceptDrift = defineContract({
  name: "cluster.acceptDrift",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/accept-drift",
  summary: "Accept drift",
  description:
    "Accepts the drift with this digest until the next change of the cluster, which undoes it.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  body: {
    digest: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be the digest of the drift")
      .meta({ description: "Digest of the drift to accept; another drift is rejected" }),
  },
  response: Drift,
});
