import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "./operation.ts";

export const cancelOperation = defineContract({
  name: "operation.cancel",
  method: "POST",
  path: "/v1/operations/{operation_id}/cancel",
  summary: "Cancel an operation",
  description:
    "Stops after the current step. A cancelled operation can be retried. Members can cancel benchmarks; other operations require an admin.",
  tag: "Operations",
  permission: "operation:cancel",
  successStatus: 202,
  params: { operation_id: pathId("op") },
  response: Operation,
});
