import type {
  CostEstimate as CostShape,
  OperationPlan as OperationPlanShape,
  ChangePlan as PlanShape,
  ChangePreview as PreviewShape,
} from "@millrace/contract";
import type { ChangePreview, OperationPlanView } from "@millrace/core";
import type { CostEstimate, RecoveryReport } from "@millrace/domain";

type Plan = ChangePreview["plan"];

export function presentPreview(preview: ChangePreview): PreviewShape {
  const { plan, specChanges, cost, costDelta, warnings } = preview;
  return {
    plan: presentPlan(plan),
    spec_changes: specChanges.map((change) => ({ ...change })),
    cost: presentCost(cost),
    cost_delta: costDelta,
    policy: plan.findings.map((finding) => ({ ...finding })),
    warnings: [...warnings],
  };
}

export function presentOperationPlan(view: OperationPlanView): OperationPlanShape {
  return {
    operation_id: view.operationId,
    plan: presentPlan(view.plan),
    cost: view.cost === undefined ? null : presentCost(view.cost),
    policy: view.plan.findings.map((finding) => ({ ...finding })),
    created_at: view.createdAt.toISOString(),
  };
}

export function presentPlan(plan: Plan): PlanShape {
  return {
    changes: plan.changes.map((change) => ({
      address: change.address,
      type: change.type,
      action: change.action,
      attributes: change.attributes.map((attribute) => ({ ...attribute })),
    })),
    summary: { ...plan.summary },
    diff: plan.diff,
    digest: plan.digest,
    recovery: plan.recovery === undefined ? null : presentRecovery(plan.recovery),
  };
}

function presentRecovery(report: RecoveryReport): NonNullable<PlanShape["recovery"]> {
  return {
    source: report.source,
    recovered_to: report.recoveredTo,
    topics: report.topics,
    partitions: report.partitions,
    records_from_wal: report.recordsFromWal,
    bytes_from_wal: report.bytesFromWal,
    missing_partitions: report.missingPartitions,
    missing: report.missing.map((missing) => ({
      topic: missing.topic,
      partition: missing.partition,
      from_offset: missing.fromOffset,
      to_offset: missing.toOffset,
      acknowledged_by: missing.acknowledgedBy,
    })),
    warnings: [...report.warnings],
  };
}

export function presentCost(cost: CostEstimate): CostShape {
  return {
    currency: cost.currency,
    as_of: cost.asOf,
    total: cost.total,
    lines: cost.lines.map((line) => ({
      item: line.item,
      quantity: line.quantity,
      unit: line.unit,
      unit_price: line.unitPrice,
      monthly: line.monthly,
    })),
    assumptions: [...cost.assumptions],
  };
}
