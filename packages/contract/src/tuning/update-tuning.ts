import { defineContract } from "../contract.ts";
import { ifMatch, pathId, validateOnly } from "../field.ts";
import { Tuning, tuningPatch } from "./tuning.ts";

export const updateTuning = defineContract({
  name: "tuning.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}/tuning",
  summary: "Update tuning",
  description:
    "Applied to the running broker without a restart. A broker that is down gets the values when it is back. A value that equals the default is a change too: it holds whatever the default becomes. null returns to the default.",
  tag: "Tuning",
  permission: "tuning:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: { validate_only: validateOnly },
  headers: { if_match: ifMatch },
  body: tuningPatch,
  response: Tuning,
});
