import { DRIFT_STATUSES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";
import { ChangePlan } from "../plan/change-plan.ts";

/** How what exists differs from what the last operation left. */
export const Drift = z
  .object({
    cluster_id: z.string(),
    status: z.enum(DRIFT_STATUSES),
    checked_at: timestamp.nullable(),
    digest: z.string().nullable().meta({ description: "Names this very difference" }),
    operation_id: z.string().nullable().meta({
      description:
        "The operation that found it; of an unknown one, the last change since which nobody looked",
    }),
    plan: ChangePlan.nullable().meta({
      description: "before is what was made, after is what was found; null where nothing differs",
    }),
  })
  .meta({ id: "Drift" });
export type Drift = z.infer<typeof Drift>;
