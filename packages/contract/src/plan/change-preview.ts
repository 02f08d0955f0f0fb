import { z } from "zod";
import { ChangePlan, PolicyFinding } from "./change-plan.ts";
import { CostEstimate } from "./cost-estimate.ts";

/** One field of the spec that a change sets. */
const SpecFieldChange = z
  .object({
    field: z.string().meta({ description: "Such as name, or labels.team for the label team" }),
    before: z.string().nullable(),
    after: z.string().nullable(),
  })
  .meta({ id: "SpecFieldChange" });

/** The answer to `validate_only`: changes, cost, policy findings and warnings. */
export const ChangePreview = z
  .object({
    plan: ChangePlan,
    spec_changes: z.array(SpecFieldChange).meta({
      description: "What an update sets in name, size, deletion protection and labels",
    }),
    cost: CostEstimate.nullable(),
    cost_delta: z
      .number()
      .nullable()
      .meta({ description: "USD per month, compared with the current cost" }),
    policy: z.array(PolicyFinding),
    warnings: z.array(z.string()),
  })
  .meta({ id: "ChangePreview" });
export type ChangePreview = z.infer<typeof ChangePreview>;
