import { z } from "zod";
import { RecoveryReport } from "./recovery-report.ts";

export const PlannedChange = z
  .object({
    address: z.string().meta({ description: "Address in the stack" }),
    type: z.string(),
    action: z.enum(["create", "update", "replace", "delete", "read", "import"]),
    attributes: z.array(
      z.object({
        name: z.string(),
        before: z.string().nullable(),
        after: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: "PlannedChange" });
export type PlannedChange = z.infer<typeof PlannedChange>;

const ChangeSummary = z
  .object({
    create: z.int(),
    update: z.int(),
    replace: z.int(),
    delete: z.int(),
    import: z.int(),
  })
  .meta({ id: "ChangeSummary" });

/** What would change. Secrets are not in it, and each part is bounded. */
export const ChangePlan = z
  .object({
    changes: z.array(PlannedChange),
    summary: ChangeSummary,
    diff: z.string().meta({ description: "Human-readable, at most 64 KiB" }),
    digest: z
      .string()
      .meta({ description: "SHA-256 of the changes: equal plans have equal digests" }),
    recovery: RecoveryReport.nullable().meta({ description: "Set for the plan of a recovery" }),
  })
  .meta({ id: "ChangePlan" });
export type ChangePlan = z.infer<typeof ChangePlan>;

export const PolicyFinding = z
  .object({
    rule: z.string(),
    severity: z.enum(["error", "warning"]),
    address: z.string(),
    message: z.string(),
  })
  .meta({ id: "PolicyFinding" });
export type PolicyFinding = z.infer<typeof PolicyFinding>;
