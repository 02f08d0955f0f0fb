import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Tuning } from "./tuning.ts";

export const revertTuningChange = defineContract({
  name: "tuning.revert",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/tuning/changes/{change_id}/revert",
  summary: "Revert a tuning change",
  description:
    "Restores the values that the change replaced, as a new change in the history. Rejected with 409 (`tuning_changed_since`) if a later change touched one of the settings.",
  tag: "Tuning",
  permission: "tuning:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), change_id: pathId("tch") },
  response: Tuning,
});
