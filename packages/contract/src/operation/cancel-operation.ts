import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "./operation.ts";

export const cancelOperation = defineContract({
  name: "operation.cancel",
  method: "POST",
  path: "/v1/operations/{operation_id}/cancel",
  summary: "Cancel an operation",
  description: "Stops after the current step. A cancelled operation can be retried.",
  tag: "Operations",
  permission: "operation:write",
  successStatus: 202,
  params: { operation_id: pathId("op") },
  response: Operation,
});
