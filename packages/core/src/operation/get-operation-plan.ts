import { type CostEstimate, DomainError, type OperationId, type Principal } from "@millrace/domain";
import type { ChangePlan } from "@millrace/provisioner";
import { estimateOf } from "../cluster/cluster-estimate.ts";
import type { Core } from "../core.ts";
import { requireOperation } from "./require-operation.ts";

/** The newest plan that an operation made. */
export interface OperationPlanView {
  readonly operationId: OperationId;
  readonly plan: ChangePlan;
  readonly cost: CostEstimate | undefined;
  readonly createdAt: Date;
}

/** Throws `not_found` for an operation that does not exist, or has made no plan yet. */
export async function getOperationPlan(
  core: Core,
  principal: Principal,
  id: OperationId,
): Promise<OperationPlanView> {
  const operation = await requireOperation(core, principal, id);
  const stored = await core.db.operationPlans.get(operation.id);
  if (!stored) {
    throw new DomainError("not_found", `Operation ${id} has no plan.`, {
      remedy: "Wait until its step plan is done. Some operations have no plan.",
    });
  }
  const cluster = await core.db.clusters.load(operation.clusterId);
  return {
    operationId: operation.id,
    plan: stored.plan as ChangePlan,
    cost: (stored.cost as CostEstimate | null) ?? (cluster && estimateOf(cluster)),
    createdAt: stored.createdAt,
  };
}
