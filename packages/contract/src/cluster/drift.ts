import { DRIFT_STATUSES } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";
import { ChangePlan } from "../plan/change-plan.ts";

/** Changes made outside Millrace since the last operation. */
export const Drift = z
  .object({
    cluster_id: z.string(),
    status: z.enum(DRIFT_STATUSES),
    checked_at: timestamp.nullable(),
    digest: z.string().nullable().meta({ description: "Identifies this difference" }),
    operation_id: z.string().nullable().meta({
      description:
        "The operation that found the drift; for status unknown, the last change since the last check",
    }),
    plan: ChangePlan.nullable().meta({
      description: "before is the expected value, after the actual one; null without drift",
    }),
  })
  .meta({ id: "Drift" });
export type Drift = z.infer<typeof Drift>;
