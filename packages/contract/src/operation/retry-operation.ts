import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "./operation.ts";

export const retryOperation = defineContract({
  name: "operation.retry",
  method: "POST",
  path: "/v1/operations/{operation_id}/retry",
  summary: "Retry an operation",
  description:
    "Resumes a failed or cancelled operation at its first unfinished step. Retrying a deletion also needs the permission `cluster:delete`.",
  tag: "Operations",
  permission: "operation:write",
  successStatus: 202,
  params: { operation_id: pathId("op") },
  response: Operation,
});
