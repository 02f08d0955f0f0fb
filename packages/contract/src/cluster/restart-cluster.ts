import { BROKERS_PER_CLUSTER_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { ifMatch, pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

export const restartCluster = defineContract({
  name: "cluster.restart",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/restart",
  summary: "Restart brokers",
  description:
    "Restarts the brokers one at a time. Of several, the next one is only restarted while all the others " +
    "serve. In the region local only.",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  headers: { if_match: ifMatch },
  body: {
    broker_id: z
      .int()
      .min(0)
      .max(BROKERS_PER_CLUSTER_MAX)
      .optional()
      .meta({ description: "Restarts this broker only" }),
  },
  response: Operation,
});
