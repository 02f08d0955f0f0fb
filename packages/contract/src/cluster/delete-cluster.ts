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
  summary: "Delete a cluster, its data at once or after some days",
  tag: "Clusters",
  permission: "cluster:delete",
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
          "Days for which the data can be restored: 0 on this machine, 7 on AWS by default. Of a " +
          "cluster that was never seen to serve the data is kept only where this says so, and " +
          "where a broker was begun; of one whose data is destroyed in part, nothing. Where an " +
          "earlier deletion failed, the data is kept for as long as that one said unless this one " +
          "says otherwise. Of a cluster that is deleted already, an explicit 0 purges the data " +
          "that is kept; any other request answers with the deletion that is done",
      }),
  },
  headers: { if_match: ifMatch },
  response: z.union([ChangePreview, Operation]),
  answers: { 200: ChangePreview, 202: Operation },
});
