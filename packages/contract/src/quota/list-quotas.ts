import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { ClientQuota } from "./quota.ts";

export const listQuotas = defineContract({
  name: "quota.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/quotas",
  summary: "List quotas",
  description: "Of a client, the most specific quota counts: user and client ID, user, client ID.",
  tag: "Quotas",
  permission: "quota:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: { ...pageQuery },
  response: pageOf(ClientQuota).meta({ id: "ClientQuotaPage" }),
});
