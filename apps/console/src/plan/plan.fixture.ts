/** Answers to `validate_only` as the API gives them, for tests. */
import type { ChangePreview } from "@millrace/contract";
import type { PlannedChange } from "./plan-groups.ts";

export function plannedChange(change: Partial<PlannedChange> = {}): PlannedChange {
  return {
    address: "aws_ebs_volume.wal_0",
    type: "aws_ebs_volume",
    action: "update",
    attributes: [{ name: "throughput", before: "125", after: "250" }],
    ...change,
  };
}

export function changePreview(preview: Partial<ChangePreview> = {}): ChangePreview {
  return {
    plan: {
      changes: [plannedChange()],
      summary: { create: 0, update: 1, replace: 0, delete: 0, import: 0 },
      diff: '~ aws_ebs_volume.wal_0 (update)\n    throughput: "125" → "250"\n',
      digest: "0".repeat(64),
      recovery: null,
    },
    spec_changes: [],
    cost: {
      currency: "USD",
      as_of: "2026-06-17",
      total: 123.4,
      lines: [
        {
          item: "EBS WAL volume gp3",
          quantity: 10,
          unit: "GiB-month",
          unit_price: 0.08,
          monthly: 0.8,
        },
      ],
      assumptions: ["On-demand list prices of 2026-06-17."],
    },
    cost_delta: 5,
    policy: [],
    warnings: [],
    ...preview,
  };
}
