/** Steps about plans: made, approved, applied, and compared with what exists. */
import { type ClusterDrift, DomainError, type StepName } from "@millrace/domain";
import { type ChangePlan, isEmptyPlan, ProvisionError } from "@millrace/provisioner";
import { ApprovalAwaited, type Step, type StepContext } from "../workflow.ts";
import { isWithinApproval } from "./approved-plan.ts";
import { deployment, purposeOf, runOptions, unlessNowhere } from "./deployment.ts";
import { sweepAndTell } from "./sweep.ts";

const prepareStack: Step = {
  check: (context) => context.driver.isPrepared(deployment(context)),
  async do(context) {
    await context.driver.prepare(deployment(context), runOptions(context));
    return undefined;
  },
};

const sweep: Step = {
  // Before its first attempt nothing of a cluster exists.
  check: async ({ operation }) => operation.kind === "cluster.create" && operation.attempt === 1,
  async do(context) {
    await sweepAndTell(context);
    return undefined;
  },
};

const plan: Step = {
  async do(context) {
    const made = await context.driver.plan(deployment(context), {
      purpose: purposeOf(context),
      ...runOptions(context),
    });
    await keepPlan(context, made);
    const errors = made.findings.filter(({ severity }) => severity === "error");
    if (errors.length > 0) throw refused(errors);
    return undefined;
  },
};

/** An approval goes over to a plan that does nothing but what was approved; else it is void. */
async function keepPlan(context: StepContext, made: ChangePlan): Promise<void> {
  const { tools, fence, operation } = context;
  const { approval } = operation;
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    if (approval) {
      const before = await tx.operationPlans.get(operation.id);
      const covered =
        before?.digest === approval.digest && isWithinApproval(made, before.plan as ChangePlan);
      await tx.journal.carryApproval(fence, covered ? made.digest : undefined);
    }
    await tx.operationPlans.save(operation.id, {
      planId: made.id,
      digest: made.digest,
      plan: made,
      cost: null,
    });
  });
}

function refused(errors: ChangePlan["findings"]): DomainError {
  const lines = errors.map(({ rule, address, message }) => `${address}: ${message} (${rule})`);
  return new DomainError("policy_violated", `Policy checks failed.\n${lines.join("\n")}`, {
    remedy: "Change the cluster's settings so that the plan passes the checks.",
  });
}

const approve: Step = {
  async check({ operation, tools }) {
    if (!operation.parameters.requireApproval) {
      return operation.steps.some(({ name, state }) => name === "approve" && state === "SKIPPED");
    }
    const stored = await tools.db.operationPlans.get(operation.id);
    if (stored === undefined) return false;
    return operation.approval?.digest === stored.digest || isEmptyPlan(stored.plan as ChangePlan);
  },
  async do({ operation }) {
    if (!operation.parameters.requireApproval) return { skipped: "not requested" };
    throw new ApprovalAwaited("the plan waits for approval");
  },
};

/** Carries out exactly the plan that was kept, and approved where that was asked for. */
const apply: Step = {
  async do(context) {
    const stored = await context.tools.db.operationPlans.get(context.operation.id);
    if (!stored) throw new ProvisionError("plan_stale", "there is no plan to apply");
    await context.driver.apply(deployment(context), stored.planId, runOptions(context));
    return undefined;
  },
};

/** As `apply`; the log ends with what the approved report said. */
const recover: Step = {
  async do(context) {
    await apply.do(context);
    const { tools, operation, onEvent } = context;
    const stored = await tools.db.operationPlans.get(operation.id);
    const report = (stored?.plan as ChangePlan | undefined)?.recovery;
    if (report === undefined) return undefined;
    const { topics, partitions, recoveredTo, missingPartitions } = report;
    const lost =
      missingPartitions === 0
        ? "no acknowledged record is known to be missing"
        : `acknowledged records are missing, partitions: ${missingPartitions}`;
    const message = `recovered as of ${recoveredTo}, topics: ${topics}, partitions: ${partitions}; ${lost}`;
    const level = missingPartitions === 0 ? "info" : "warning";
    onEvent({ at: tools.clock.now().getTime(), level, kind: "run", message });
    return undefined;
  },
};

const detectDrift: Step = {
  async do(context) {
    const { tools, cluster, operation, fence } = context;
    const found = await context.driver.drift(deployment(context), runOptions(context));
    const undoes = operation.kind === "cluster.reconcile";
    if (undoes) tellWhatIsLeft(context, found);
    await tools.db.transaction(async (tx) => {
      await tx.journal.hold(fence);
      // Somebody may have accepted this very drift while it was looked for.
      const { drift: known } =
        (await tx.clusters.lock(cluster.organizationId, cluster.id)) ?? cluster;
      // What was to be undone, accepted or not, and is still there, nobody has accepted.
      const accepted = !undoes && known.status === "accepted" && known.digest === found.digest;
      const drift: ClusterDrift = {
        status: isEmptyPlan(found) ? "in_sync" : accepted ? "accepted" : "drifted",
        checkedAt: tools.clock.now(),
        digest: isEmptyPlan(found) ? undefined : found.digest,
        operationId: operation.id,
      };
      await tx.clusters.recordDrift(cluster.id, drift);
      const { id: planId, digest } = found;
      // The plan that was carried out stays where nothing is left to show.
      if (undoes && isEmptyPlan(found)) return;
      await tx.operationPlans.save(operation.id, { planId, digest, plan: found, cost: null });
    });
    return undefined;
  },
};

function tellWhatIsLeft({ tools, onEvent }: StepContext, { changes }: ChangePlan): void {
  for (const { address } of changes) {
    const message = `${address} still differs, and no plan can revert it. Revert it manually.`;
    onEvent({ at: tools.clock.now().getTime(), level: "warning", kind: "run", message, address });
  }
}

export const PLAN_STEPS = {
  prepare_stack: unlessNowhere(prepareStack),
  sweep: unlessNowhere(sweep),
  plan: unlessNowhere(plan),
  approve,
  apply: unlessNowhere(apply),
  detect_drift: detectDrift,
  // The local driver's plan says whether the broker has to restart.
  restart_broker: apply,
  recover,
} satisfies Partial<Record<StepName, Step>>;
