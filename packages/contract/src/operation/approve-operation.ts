import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "./operation.ts";

export const approveOperation = defineContract({
  name: "operation.approve",
  method: "POST",
  path: "/v1/operations/{operation_id}/approve",
  summary: "Approve a plan",
  description: "Lets a waiting operation apply the plan with this digest.",
  tag: "Operations",
  permission: "operation:write",
  stepUp: true,
  successStatus: 202,
  params: { operation_id: pathId("op") },
  body: {
    digest: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be the digest of the operation's plan")
      .meta({ description: "Digest of the plan to approve; another plan is rejected" }),
  },
  response: Operation,
});
