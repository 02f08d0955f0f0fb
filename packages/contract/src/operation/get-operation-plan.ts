import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId, timestamp } from "../field.ts";
import { ChangePlan, PolicyFinding } from "../plan/change-plan.ts";
import { CostEstimate } from "../plan/cost-estimate.ts";

/** The plan that an operation applies, or that waits for approval. */
export const OperationPlan = z
  .object({
    operation_id: z.string(),
    plan: ChangePlan,
    cost: CostEstimate.nullable(),
    policy: z.array(PolicyFinding),
    created_at: timestamp,
  })
  .meta({ id: "OperationPlan" });
export type OperationPlan = z.infer<typeof OperationPlan>;

export const getOperationPlan = defineContract({
  name: "operation.plan",
  method: "GET",
  path: "/v1/operations/{operation_id}/plan",
  summary: "Get an operation's plan",
  tag: "Operations",
  permission: "operation:read",
  successStatus: 200,
  params: { operation_id: pathId("op") },
  response: OperationPlan,
});
