import { setTimeout as delay } from "node:timers/promises";
import { type Fence, LeaseLost, type StepChange } from "@millrace/db";
import type {
  Cluster,
  Operation,
  OperationId,
  OperationKind,
  OperationStep,
} from "@millrace/domain";
import { readyCondition } from "../cluster/cluster-condition.ts";
import { createClusterPlan } from "../cluster/create-cluster-plan.ts";
import { deleteClusterPlan } from "../cluster/delete-cluster-plan.ts";
import { failureOf, isWorthRetrying, StepFailed } from "./failure.ts";
import { Lease } from "./lease.ts";
import type { Plan, Step, StepContext } from "./plan.ts";
import type { WorkerTools } from "./worker-tools.ts";

/** How long an operation stays with a worker that does not say that it is alive. */
export const LEASE_MS_DEFAULT = 15_000;
const STEP_TRIES_MAX = 3;
const RETRY_DELAY_MS_DEFAULT = 1_000;

const PLANS: Partial<Record<OperationKind, Plan>> = {
  "cluster.create": createClusterPlan,
  "cluster.delete": deleteClusterPlan,
};

export interface RunOptions {
  /** Names the worker in the journal. */
  readonly workerId: string;
  /** Aborts when the worker stops: the operation is handed back at the next safe point. */
  readonly signal: AbortSignal;
  readonly leaseMs?: number;
  readonly retryDelayMs?: number;
}

export type RunResult =
  | "succeeded"
  | "failed"
  /** Done already, or with another worker. */
  | "not_claimed"
  /** Another worker has taken over; nothing was changed since. */
  | "lost"
  /** The worker stops; the next one goes on. */
  | "handed_back";

/**
 * Claims an operation and carries it out, from where the last attempt was interrupted. Kill the
 * process at any instant: the lease runs out, another call claims the operation with a higher
 * attempt, checks what holds, and does the rest.
 *
 * Throws only where the database fails; the operation is then claimed again later.
 */
export async function runOperation(
  tools: WorkerTools,
  id: OperationId,
  options: RunOptions,
): Promise<RunResult> {
  const leaseMs = options.leaseMs ?? LEASE_MS_DEFAULT;
  const { db } = tools;
  const askedMs = performance.now();
  const operation = await db.transaction((tx) => tx.journal.claim(id, options.workerId, leaseMs));
  if (!operation) return "not_claimed";
  const fence: Fence = { operationId: id, attempt: operation.attempt };
  const lease = new Lease(db.journal, fence, leaseMs, askedMs);
  const signal = AbortSignal.any([lease.signal, options.signal]);
  try {
    return await new Run(tools, operation, fence, signal, options).toTheEnd();
  } catch (error) {
    if (error instanceof LeaseLost || lease.signal.aborted) return "lost";
    if (!options.signal.aborted) throw error;
    await db.journal.release(fence);
    return "handed_back";
  } finally {
    lease.end();
  }
}

/** One attempt of one operation. */
class Run {
  readonly #tools: WorkerTools;
  readonly #operation: Operation;
  readonly #fence: Fence;
  readonly #signal: AbortSignal;
  readonly #retryDelayMs: number;

  constructor(
    tools: WorkerTools,
    operation: Operation,
    fence: Fence,
    signal: AbortSignal,
    options: RunOptions,
  ) {
    this.#tools = tools;
    this.#operation = operation;
    this.#fence = fence;
    this.#signal = signal;
    this.#retryDelayMs = options.retryDelayMs ?? RETRY_DELAY_MS_DEFAULT;
  }

  async toTheEnd(): Promise<"succeeded" | "failed"> {
    const plan = PLANS[this.#operation.kind];
    if (!plan) throw new Error(`there is no plan for ${this.#operation.kind}`);
    try {
      for (const step of plan.steps) await this.#runStep(step);
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      await this.#fail(plan, error);
      return "failed";
    }
    await this.#tools.db.transaction((tx) =>
      tx.journal.complete(this.#fence, { phase: "SUCCEEDED" }),
    );
    return "succeeded";
  }

  async #runStep(step: Step): Promise<void> {
    const entry = this.#operation.steps.find((each) => each.name === step.name);
    const complete = entry?.state === "SUCCEEDED" || entry?.state === "SKIPPED";
    if (complete && (await this.#stillHolds(step))) return;
    this.#signal.throwIfAborted();
    await this.#record({ name: step.name, state: "RUNNING" });
    const done = await this.#try(step);
    await this.#record({ name: step.name, ...outcomeOf(done, entry) });
  }

  /** Whether a step that an earlier attempt completed still has its effect. */
  async #stillHolds(step: Step): Promise<boolean> {
    return step.check === undefined || (await step.check(await this.#context()));
  }

  /** Runs the step, again where that may help. "held" where there was nothing to do. */
  async #try(step: Step): Promise<"held" | "done"> {
    for (let tries = 1; ; tries += 1) {
      this.#signal.throwIfAborted();
      try {
        const context = await this.#context();
        if (await step.check?.(context)) return "held";
        await step.do(context);
        return "done";
      } catch (error) {
        this.#signal.throwIfAborted();
        if (error instanceof LeaseLost) throw error;
        const fields = { operation: this.#operation.id, step: step.name, tries, err: error };
        this.#tools.log.warn(fields, "a step of an operation failed");
        if (tries === STEP_TRIES_MAX || !isWorthRetrying(error)) {
          throw new StepFailed(step.name, error);
        }
      }
      await delay(this.#retryDelayMs * tries, undefined, { signal: this.#signal });
    }
  }

  async #fail(plan: Plan, failed: StepFailed): Promise<void> {
    const { db, clock, log } = this.#tools;
    const failure = failureOf(failed);
    try {
      await plan.cleanUp?.(await this.#context());
    } catch (error) {
      log.error({ operation: this.#operation.id, err: error }, "cleaning up failed");
    }
    const { message } = failure;
    await db.transaction(async (tx) => {
      await tx.journal.recordStep(this.#fence, { name: failed.step, state: "FAILED", message });
      await tx.clusters.changePhase(this.#operation.clusterId, {
        to: "FAILED",
        conditions: readyCondition(clock, "False", "OperationFailed", message),
      });
      await tx.journal.complete(this.#fence, { phase: "FAILED", error: failure });
    });
  }

  async #record(change: StepChange): Promise<void> {
    await this.#tools.db.transaction((tx) => tx.journal.recordStep(this.#fence, change));
  }

  async #context(): Promise<StepContext> {
    const cluster: Cluster | undefined = await this.#tools.db.clusters.load(
      this.#operation.clusterId,
    );
    if (!cluster) throw new Error("an operation's cluster is never removed");
    return { tools: this.#tools, cluster, fence: this.#fence, signal: this.#signal };
  }
}

/** How a step that ended well is journaled. */
function outcomeOf(
  done: "held" | "done",
  before: OperationStep | undefined,
): Omit<StepChange, "name"> {
  if (done === "done") return { state: "SUCCEEDED" };
  if (before && before.attempt > 0) return { state: "SUCCEEDED", message: "was done already" };
  return { state: "SKIPPED", message: "nothing to do" };
}
