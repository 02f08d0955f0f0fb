import { defineContract } from "../contract.ts";
import { pathId, waitField } from "../field.ts";
import { Operation } from "./operation.ts";

export const getOperation = defineContract({
  name: "operation.get",
  method: "GET",
  path: "/v1/operations/{operation_id}",
  summary: "Get an operation",
  description: "With wait, returns when the operation is done or the time is up.",
  tag: "Operations",
  permission: "operation:read",
  successStatus: 200,
  params: { operation_id: pathId("op") },
  query: { wait: waitField.optional() },
  response: Operation,
});
