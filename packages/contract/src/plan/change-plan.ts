import { z } from "zod";

/** One resource that a plan makes, changes or takes away. */
export const PlannedChange = z
  .object({
    /** Where it stands in the stack, such as `aws_ebs_volume.wal_0`. */
    address: z.string(),
    /** Kind of thing, such as `aws_ebs_volume` or `process`. */
    type: z.string(),
    action: z.enum(["create", "update", "replace", "delete", "read", "import"]),
    /** Values as text; null where there is or was none. Secrets are left out. */
    attributes: z.array(
      z.object({ name: z.string(), before: z.string().nullable(), after: z.string().nullable() }),
    ),
  })
  .meta({ id: "PlannedChange" });
export type PlannedChange = z.infer<typeof PlannedChange>;

export const PolicyFinding = z
  .object({
    /** Stable name of the rule. */
    rule: z.string(),
    /** A plan with an error is not applied. */
    severity: z.enum(["error", "warning"]),
    address: z.string(),
    message: z.string(),
  })
  .meta({ id: "PolicyFinding" });
export type PolicyFinding = z.infer<typeof PolicyFinding>;

export const ChangePlan = z
  .object({
    changes: z.array(PlannedChange),
    summary: z.object({
      create: z.int(),
      update: z.int(),
      replace: z.int(),
      delete: z.int(),
      import: z.int(),
    }),
    /** The plan as text for people. */
    diff: z.string(),
    /** SHA-256 over the changes: the same plan made again has the same one. */
    digest: z.string(),
  })
  .meta({ id: "ChangePlan" });
export type ChangePlan = z.infer<typeof ChangePlan>;
