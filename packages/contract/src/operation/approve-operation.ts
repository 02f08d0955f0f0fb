import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "./operation.ts";

export const approveOperation = defineContract({
  name: "operation.approve",
  method: "POST",
  path: "/v1/operations/{operation_id}/approve",
  summary: "Approve the plan that an operation waits with",
  tag: "Operations",
  permission: "operation:write",
  successStatus: 202,
  params: { operation_id: pathId("op") },
  body: {
    digest: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "the digest of the operation's plan")
      .meta({ description: "Digest of the plan that was looked at: no other one is approved" }),
  },
  response: Operation,
});
