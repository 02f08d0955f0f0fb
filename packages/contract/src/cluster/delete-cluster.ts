import { RETAIN_DAYS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { ifMatch, pathId, validateOnly } from "../field.ts";
import { Operation } from "../operation/operation.ts";
import { ChangePreview } from "../plan/change-preview.ts";

export const deleteCluster = defineContract({
  name: "cluster.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}",
  summary: "Delete a cluster",
  description: "The data can be restored for retain_days, 7 by default.",
  tag: "Clusters",
  permission: "cluster:delete",
  stepUp: true,
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  query: {
    validate_only: validateOnly,
    retain_days: z.coerce
      .number<string | number>()
      .int()
      .min(0)
      .max(RETAIN_DAYS_MAX)
      .optional()
      .meta({
        description:
          "Days for which the data can be restored, 7 by default; 0 deletes it with the cluster. " +
          "A cluster that never served keeps data only if this is set and a broker was started. " +
          "Data that is partly destroyed is not kept. If an earlier deletion failed, its value " +
          "holds unless this is set. For a cluster that is already deleted, 0 purges the kept " +
          "data; any other value returns the earlier deletion",
      }),
  },
  headers: { if_match: ifMatch },
  response: z.union([ChangePreview, Operation]),
  answers: { 200: ChangePreview, 202: Operation },
});
