import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ClientQuota, quotaEntity, quotaLimits } from "./quota.ts";

export const setQuota = defineContract({
  name: "quota.set",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/quotas",
  summary: "Set a quota",
  description: "Takes effect at once. Absent limits stay, null removes one.",
  tag: "Quotas",
  permission: "quota:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  body: {
    ...quotaEntity,
    producer_byte_rate: quotaLimits.producer_byte_rate.optional(),
    consumer_byte_rate: quotaLimits.consumer_byte_rate.optional(),
    request_percentage: quotaLimits.request_percentage.optional(),
    controller_mutation_rate: quotaLimits.controller_mutation_rate.optional(),
  },
  response: ClientQuota,
});
