import { z } from "zod";
import { ChangePlan, PolicyFinding } from "./change-plan.ts";
import { CostEstimate } from "./cost-estimate.ts";

/** The answer to `validate_only`: what would change, what it would cost, and what speaks against it. */
export const ChangePreview = z
  .object({
    plan: ChangePlan,
    cost: CostEstimate.nullable(),
    cost_delta: z
      .number()
      .nullable()
      .meta({ description: "USD per month, against what the cluster costs now" }),
    policy: z.array(PolicyFinding),
    warnings: z.array(z.string()),
  })
  .meta({ id: "ChangePreview" });
export type ChangePreview = z.infer<typeof ChangePreview>;
