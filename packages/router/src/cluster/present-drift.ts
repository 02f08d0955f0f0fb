import type { Drift } from "@millrace/contract";
import type { DriftView } from "@millrace/core";
import { presentPlan } from "../plan/present-plan.ts";

export function presentDrift({ cluster: { id, drift }, plan }: DriftView): Drift {
  return {
    cluster_id: id,
    status: drift.status,
    checked_at: drift.checkedAt?.toISOString() ?? null,
    digest: drift.digest ?? null,
    operation_id: drift.operationId ?? null,
    plan: plan ? presentPlan(plan) : null,
  };
}
