import type { OperationEvent as EventShape, Operation as OperationShape } from "@millrace/contract";
import { type Operation, type OperationEvent, progressOf, stepsOf } from "@millrace/domain";

export function presentOperation(operation: Operation): OperationShape {
  const progress = progressOf(operation, new Date());
  const titles = new Map<string, string>(
    stepsOf(operation.kind, operation.provider).map((step) => [step.name, step.title]),
  );
  return {
    id: operation.id,
    kind: operation.kind,
    provider: operation.provider,
    target: { type: "cluster", id: operation.clusterId },
    phase: operation.phase,
    done: operation.done,
    steps: operation.steps.map((step) => ({
      name: step.name,
      title: titles.get(step.name) ?? step.name,
      state: step.state,
      attempt: step.attempt,
      started_at: isoOrNull(step.startedAt),
      ended_at: isoOrNull(step.endedAt),
      message: step.message ?? null,
    })),
    progress: { percent: progress.percent, eta_seconds: progress.etaSeconds ?? null },
    error: operation.error
      ? {
          code: operation.error.code,
          message: operation.error.message,
          step: operation.error.step ?? null,
        }
      : null,
    result: resultOf(operation),
    require_approval: operation.parameters.requireApproval ?? false,
    created_by: operation.createdBy ?? null,
    approved_at: isoOrNull(operation.approval?.approvedAt),
    cancel_requested_at: isoOrNull(operation.cancelRequestedAt),
    created_at: operation.createdAt.toISOString(),
    updated_at: operation.updatedAt.toISOString(),
    started_at: isoOrNull(operation.startedAt),
    ended_at: isoOrNull(operation.endedAt),
  };
}

export function presentOperationEvent(event: OperationEvent): EventShape {
  return {
    operation_id: event.operationId,
    seq: event.seq,
    at: event.at.toISOString(),
    kind: event.kind,
    step: event.step ?? null,
    message: event.message,
    level: event.level ?? null,
    address: event.address ?? null,
  };
}

function resultOf(operation: Operation): OperationShape["result"] {
  const cluster = `/v1/clusters/${operation.clusterId}`;
  const { benchmark } = operation.parameters;
  // It exists from the start: whoever follows the run reads it.
  if (benchmark) return { resource: `${cluster}/benchmarks/${benchmark.id}` };
  const gone = operation.kind === "cluster.delete" || operation.kind === "cluster.purge";
  return operation.phase !== "SUCCEEDED" || gone ? null : { resource: cluster };
}

function isoOrNull(date: Date | undefined): string | null {
  return date?.toISOString() ?? null;
}
