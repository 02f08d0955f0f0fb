import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { quotaEntity } from "./quota.ts";

export const deleteQuota = defineContract({
  name: "quota.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}/quotas",
  summary: "Delete a quota",
  description: "Removes every limit of exactly this user, client ID or pair.",
  tag: "Quotas",
  permission: "quota:write",
  successStatus: 204,
  params: { cluster_id: pathId("clu") },
  query: quotaEntity,
  response: z.null(),
});
