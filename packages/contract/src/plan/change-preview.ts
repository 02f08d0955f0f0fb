import { z } from "zod";
import { ChangePlan, PolicyFinding } from "./change-plan.ts";
import { CostEstimate } from "./cost-estimate.ts";

/** The answer to `validate_only`: what a change would do. Nothing has been done. */
export const ChangePreview = z
  .object({
    plan: ChangePlan,
    cost: CostEstimate.nullable(),
    /** USD a month more, or less, than now; null where there is nothing now. */
    cost_delta: z.number().nullable(),
    policy: z.array(PolicyFinding),
    /** What to think of before going on, one sentence each. */
    warnings: z.array(z.string()),
  })
  .meta({ id: "ChangePreview" });
export type ChangePreview = z.infer<typeof ChangePreview>;
