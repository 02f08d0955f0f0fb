import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Tuning } from "./tuning.ts";

export const getTuning = defineContract({
  name: "tuning.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/tuning",
  summary: "Get tuning",
  description: "Current values of every setting, with bounds and the reason for them.",
  tag: "Tuning",
  permission: "tuning:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: Tuning,
});
