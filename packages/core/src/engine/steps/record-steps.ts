/** Steps that end an operation: what is true by now is written down. */
import type { ClusterPhase, StepName } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { pausedCondition, readyCondition } from "../cluster-condition.ts";
import type { Step, StepContext } from "../workflow.ts";
import { isToRest, keepsData, runOptions, unlessNowhere } from "./deployment.ts";
import { sweepAndTell } from "./sweep.ts";

const publish: Step = {
  check: async ({ cluster }) => cluster.phase === (isToRest(cluster) ? "PAUSED" : "RUNNING"),
  async do(context) {
    const { tools, cluster } = context;
    if (isToRest(cluster)) return recordPaused(context);
    // Settings that the broker stored while it ran override those that it starts with.
    await tools.applyTuning(tools.db, cluster);
    const conditions = readyCondition(
      tools.clock,
      "True",
      "Serving",
      "The cluster serves clients.",
    );
    return change(context, { to: "RUNNING", observed: true, conditions });
  },
};

const recordPause: Step = {
  check: async ({ cluster }) => cluster.phase === "PAUSED",
  do: recordPaused,
};

function recordPaused(context: StepContext) {
  const conditions = pausedCondition(context.tools.clock);
  return change(context, { to: "PAUSED", observed: true, conditions });
}

const deleteData: Step = {
  check: async (context) =>
    keepsData(context) || (await context.driver.isDestroyed(context.cluster.id)),
  async do(context) {
    await context.driver.destroy(context.cluster.id, runOptions(context));
    return undefined;
  },
};

/**
 * Nothing of a cluster that is gone may be paid for by anybody. What is found although all that was
 * planned is gone takes another plan: trying this step again would only find it again.
 */
const verifyGone: Step = {
  check: async (context) => keepsData(context),
  async do(context) {
    const { imported, left } = await sweepAndTell(context);
    const found = [...imported, ...left].map(({ id }) => id);
    const isGone = await context.driver.isDestroyed(context.cluster.id);
    if (found.length === 0 && isGone) return undefined;
    const what = found.length > 0 ? found.join(", ") : "what is on record";
    throw new ProvisionError("plan_stale", `something of the cluster is still there: ${what}`);
  },
};

/** Ports and names go with the row: a deleted cluster holds none, one that can come back does. */
const recordDeletion: Step = {
  check: async (context) =>
    context.cluster.phase === (keepsData(context) ? "PENDING_PURGE" : "DELETED"),
  async do(context) {
    if (!keepsData(context)) return change(context, { to: "DELETED" });
    const until = context.cluster.purgeAt?.toISOString();
    const message = `The cluster is deleted; its data is kept until ${until}.`;
    const conditions = readyCondition(context.tools.clock, "False", "Deleted", message);
    return change(context, { to: "PENDING_PURGE", conditions });
  },
};

async function change(
  { tools, cluster, operation, fence }: StepContext,
  changed: {
    to: ClusterPhase;
    observed?: boolean;
    conditions?: ReturnType<typeof readyCondition>;
  },
): Promise<undefined> {
  await tools.db.transaction(async (tx) => {
    await tx.journal.hold(fence);
    const done = await tx.clusters.changePhase(cluster.id, changed);
    if (!done) throw new Error(`a cluster that is ${cluster.phase} cannot become ${changed.to}`);
    // Of what differed, accepted or not, some is made again as it was asked for; how much is for the
    // next look to tell. A reconciliation has looked.
    const { status } = cluster.drift;
    const differed = status === "drifted" || status === "accepted";
    if (changed.observed && differed && operation.kind !== "cluster.reconcile") {
      await tx.clusters.recordDrift(cluster.id, {
        ...{ status: "unknown", checkedAt: undefined, digest: undefined },
        operationId: operation.id,
      });
    }
    // What the states spoke of is gone, and they hold secrets.
    if (changed.to !== "DELETED") return;
    await tx.terraformStates.forget(cluster.id);
    await tx.benchmarks.forget(cluster.id);
  });
}

export const RECORD_STEPS = {
  publish_endpoint: publish,
  record_pause: recordPause,
  delete_data: deleteData,
  verify_gone: unlessNowhere(verifyGone),
  release_ports: recordDeletion,
  record_deletion: recordDeletion,
} satisfies Partial<Record<StepName, Step>>;
