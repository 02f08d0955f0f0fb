import { type Cluster, isDeletion } from "@millrace/domain";
import type { ClusterDeployment, PlanPurpose, RunOptions } from "@millrace/provisioner";
import { deploymentOf } from "../cluster-deployment.ts";
import type { Step, StepContext } from "../workflow.ts";

/** The steps after the first run only once the placement is recorded. */
export function deployment({ cluster }: Pick<StepContext, "cluster">): ClusterDeployment {
  const wanted = deploymentOf(cluster);
  if (!wanted) throw new Error("a cluster has a placement once its names or ports are reserved");
  return wanted;
}

/** Whether the operation deletes the cluster and keeps its data. */
export function keepsData({ operation, cluster }: Pick<StepContext, "operation" | "cluster">) {
  return operation.kind === "cluster.delete" && cluster.purgeAt !== undefined;
}

/** What the operation's plan is for. */
export function purposeOf(context: Pick<StepContext, "operation" | "cluster">): PlanPurpose {
  switch (context.operation.kind) {
    case "cluster.pause":
      return "pause";
    case "cluster.delete":
      return keepsData(context) ? "destroy" : "purge";
    case "cluster.purge":
      return "purge";
    case "cluster.check_drift":
      return "drift";
    case "cluster.recover":
      return "recover";
    default:
      return isToRest(context.cluster) ? "pause" : "apply";
  }
}

/** What is left of the data is not to be brought back as if it were whole. Throws `LeaseLost`. */
async function recordDestruction({ tools, cluster, fence }: StepContext): Promise<void> {
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    await tx.clusters.recordDestruction(cluster.id, tools.clock.now());
  });
}

/** Whether no broker is to run when the operation is through. */
export function isToRest({ paused }: Cluster): boolean {
  return paused;
}

/**
 * The step, where there is something to delete: of a cluster that ended before it had its names or
 * ports nothing was made.
 */
export function unlessNowhere(step: Step): Step {
  const { check } = step;
  return {
    ...(check && { check: async (context) => isNowhere(context) || (await check(context)) }),
    do: async (context) =>
      isNowhere(context) ? { skipped: "nothing of the cluster was made" } : step.do(context),
  };
}

function isNowhere({ operation, cluster }: StepContext): boolean {
  return isDeletion(operation.kind) && cluster.placement === undefined;
}

/** What goes with every run of the driver. */
export function runOptions(context: StepContext): Required<RunOptions> {
  const { fence, signal, onEvent } = context;
  return { fence, signal, onEvent, onDestroying: () => recordDestruction(context) };
}
