import { QUOTA_LIMITS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

const QuotaUsage = z
  .object({
    quota: z.enum(QUOTA_LIMITS),
    user: z.string().nullable(),
    client_id: z.string().nullable(),
    limit: z.number(),
    rate: z.number().meta({ description: "Used per second lately, in the unit of the limit" }),
    throttle_ms: z.number().meta({ description: "How long the clients are slowed down now" }),
  })
  .meta({ id: "QuotaUsage" });

export const getQuotaUsage = defineContract({
  name: "quota.usage",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/quota-usage",
  summary: "Get the usage of quotas",
  description:
    "Clients with a quota that were active lately, those nearest to their limit first; at most 1,000.",
  tag: "Quotas",
  permission: "quota:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: z.object({ items: z.array(QuotaUsage) }).meta({ id: "QuotaUsageList" }),
});
