import { setTimeout as delay } from "node:timers/promises";
import { BrokerError } from "@millrace/broker-admin";
import { type Fence, LeaseLost, type StepChange } from "@millrace/db";
import type { Operation, OperationFailure, OperationId, OperationStep } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { CancelWatch, OperationCancelled } from "./cancel-watch.ts";
import { failureOf, isStalePlan, isWorthRetrying, patienceFor, StepFailed } from "./failure.ts";
import { heldOperation } from "./held-operation.ts";
import { Lease } from "./lease.ts";
import { OperationLog } from "./operation-log.ts";
import { recordUnfinished, type UnfinishedReason } from "./unfinished-operation.ts";
import type { OperationTools, WorkerTools } from "./worker-tools.ts";
import { ApprovalAwaited, type NamedStep, type StepContext, type Workflow } from "./workflow.ts";
import { workflowOf } from "./workflows.ts";

/** How long an operation stays with a worker that does not say that it is alive. */
export const LEASE_MS_DEFAULT = 15_000;
const STEP_TRIES_MAX = 3;
const RETRY_DELAY_MS_DEFAULT = 1_000;
/**
 * Plans that one attempt makes because the one before did not fit any more. Each time a part of it
 * was carried out, or somebody else changed something; who changes things all the time is told.
 */
const PLANS_MAX = 6;

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
  /** A caller cancelled it. */
  | "cancelled"
  /** No worker has it until its plan is approved. */
  | "waiting"
  /** Done already, waiting, or with another worker. */
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
  const found = await tools.db.fleet.operations.load(id);
  if (!found) return "not_claimed";
  // What was delivered names the operation; whose it is, its row says.
  const db = tools.db.tenant(found.organizationId);
  const askedMs = performance.now();
  const operation = await db.transaction((tx) => tx.journal.claim(id, options.workerId, leaseMs));
  if (!operation) return "not_claimed";
  const fence: Fence = { operationId: id, attempt: operation.attempt };
  const lease = new Lease(db.journal, fence, leaseMs, askedMs);
  const held = AbortSignal.any([lease.signal, options.signal]);
  const cancel = new CancelWatch(db, fence, held);
  const signal = AbortSignal.any([held, cancel.signal]);
  const run = new Run({ ...tools, db }, operation, fence, signal, options);
  try {
    return await run.toTheEnd();
  } catch (error) {
    if (error instanceof LeaseLost || lease.signal.aborted) return "lost";
    if (!options.signal.aborted) throw error;
    await db.journal.release(fence);
    return "handed_back";
  } finally {
    lease.end();
    await cancel.end();
  }
}

/** One attempt of one operation. */
class Run {
  readonly #tools: OperationTools;
  #operation: Operation;
  readonly #fence: Fence;
  readonly #signal: AbortSignal;
  readonly #retryDelayMs: number;
  readonly #log: OperationLog;
  #plans = 1;
  /** The last failure of each step, since it was begun last, that was not about its plan. */
  readonly #failures = new Map<string, unknown>();

  constructor(
    tools: OperationTools,
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
    this.#log = new OperationLog(tools.db.journal, fence, (error) =>
      tools.log.warn({ operation: operation.id, err: error }, "log lines are lost"),
    );
  }

  async toTheEnd(): Promise<"succeeded" | "failed" | "cancelled" | "waiting"> {
    const workflow = workflowOf(this.#operation);
    try {
      await this.#runSteps(workflow);
    } catch (error) {
      await this.#log.flush();
      if (error instanceof ApprovalAwaited) return this.#wait(error);
      if (error instanceof OperationCancelled) return this.#cancel(workflow);
      if (!(error instanceof StepFailed)) throw error;
      return this.#fail(workflow, error);
    }
    await this.#log.flush();
    const outcome = { phase: "SUCCEEDED" } as const;
    await this.#tools.db.transaction((tx) => tx.journal.complete(this.#fence, outcome));
    return "succeeded";
  }

  /** In order. A stale plan sends the run back to the step that makes plans. */
  async #runSteps({ steps }: Workflow): Promise<void> {
    for (let index = 0; index < steps.length; ) {
      const step = steps[index];
      if (!step) return;
      try {
        await this.#runStep(step);
        index += 1;
      } catch (error) {
        const first = steps.findIndex(({ name }) => name === "sweep" || name === "plan");
        const stale = error instanceof StepFailed && isStalePlan(error);
        if (!stale || first < 0 || first >= index) throw error;
        // A plan that failed half-way is stale at the next try: what failed it is what helps.
        if (this.#plans === PLANS_MAX) throw this.#whatFailed(step, error);
        this.#plans += 1;
        this.#logStalePlan(step, error);
        await this.#repeat(steps.slice(first, index + 1));
        index = first;
      }
    }
  }

  /** Without it, nobody sees why the operation waits for another approval. */
  #logStalePlan({ name }: NamedStep, { cause }: StepFailed): void {
    const message = `Planning again: ${cause instanceof Error ? cause.message : String(cause)}`;
    const at = this.#tools.clock.now().getTime();
    this.#log.add(name, { at, level: "warning", kind: "run", message });
  }

  #whatFailed({ name }: NamedStep, stale: StepFailed): StepFailed {
    return this.#failures.has(name) ? new StepFailed(name, this.#failures.get(name)) : stale;
  }

  async #repeat(steps: readonly NamedStep[]): Promise<void> {
    this.#signal.throwIfAborted();
    const names = steps.map(({ name }) => name);
    await this.#tools.db.transaction((tx) => tx.journal.repeat(this.#fence, names));
    this.#operation = await heldOperation(this.#tools.db, this.#fence);
  }

  async #runStep(step: NamedStep): Promise<void> {
    const entry = this.#operation.steps.find((each) => each.name === step.name);
    const complete = entry?.state === "SUCCEEDED" || entry?.state === "SKIPPED";
    if (complete && (await this.#stillHolds(step))) return;
    this.#signal.throwIfAborted();
    await this.#record({ name: step.name, state: "RUNNING" });
    const done = await this.#try(step);
    await this.#log.flush();
    await this.#record({ name: step.name, ...outcomeOf(done, entry) });
  }

  /** Whether a step that an earlier attempt completed still has its effect. */
  async #stillHolds(step: NamedStep): Promise<boolean> {
    if (step.check === undefined) return true;
    try {
      return await step.check(await this.#context(step));
    } catch (error) {
      // Nobody can tell: the step is tried, and its failure is an operation's failure.
      if (error instanceof ProvisionError || error instanceof BrokerError) return false;
      throw error;
    }
  }

  /** Runs the step, again where that may help. "held" where there was nothing to do. */
  async #try(step: NamedStep): Promise<StepResult> {
    // What failed with an older plan does not say why this one is stale.
    this.#failures.delete(step.name);
    for (let tries = 1; ; tries += 1) {
      this.#signal.throwIfAborted();
      let patience = 1;
      try {
        const context = await this.#context(step);
        if (await step.check?.(context)) return "held";
        return (await step.do(context)) ?? "done";
      } catch (error) {
        this.#signal.throwIfAborted();
        if (error instanceof LeaseLost || error instanceof ApprovalAwaited) throw error;
        const fields = { operation: this.#operation.id, step: step.name, tries, err: error };
        this.#tools.log.warn(fields, "a step of an operation failed");
        const failed = new StepFailed(step.name, error);
        if (!isStalePlan(failed)) this.#failures.set(step.name, error);
        if (tries === STEP_TRIES_MAX || !isWorthRetrying(error)) throw failed;
        patience = patienceFor(error);
      }
      // Where the pause is cut short, the next round says why.
      const pauseMs = this.#retryDelayMs * tries * patience;
      await delay(pauseMs, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  async #wait({ message }: ApprovalAwaited): Promise<"waiting"> {
    await this.#tools.db.transaction((tx) => tx.journal.waitForApproval(this.#fence, message));
    return "waiting";
  }

  async #cancel(workflow: Workflow): Promise<"cancelled"> {
    const reason = { reason: "Cancelled", message: "The operation was cancelled." } as const;
    const { steps } = await heldOperation(this.#tools.db, this.#fence);
    const running = steps.find((step) => step.state === "RUNNING")?.name;
    await this.#end(workflow, running, "CANCELLED", undefined, reason);
    return "cancelled";
  }

  async #fail(workflow: Workflow, failed: StepFailed): Promise<"failed"> {
    const failure = failureOf(failed);
    const reason = { reason: "OperationFailed", message: failure.message } as const;
    await this.#end(workflow, failed.step, "FAILED", failure, reason);
    return "failed";
  }

  async #end(
    workflow: Workflow,
    step: string | undefined,
    phase: "FAILED" | "CANCELLED",
    failure: OperationFailure | undefined,
    reason: UnfinishedReason,
  ): Promise<void> {
    const { db, clock, log } = this.#tools;
    const fence = this.#fence;
    try {
      await workflow.cleanUp?.(await this.#context(workflow.steps[0]));
    } catch (error) {
      log.error({ operation: this.#operation.id, err: error }, "cleaning up failed");
    }
    const operation = await heldOperation(db, fence);
    await db.transaction(async (tx) => {
      await tx.journal.hold(fence);
      const cluster = await tx.clusters.load(operation.clusterId);
      const { message } = reason;
      if (step !== undefined) {
        await tx.journal.recordStep(fence, { name: step, state: "FAILED", message });
      }
      if (cluster) await recordUnfinished(tx, clock, cluster, operation, reason);
      await tx.journal.complete(fence, { phase, ...(failure && { error: failure }) });
    });
  }

  async #record(change: StepChange): Promise<void> {
    await this.#tools.db.transaction((tx) => tx.journal.recordStep(this.#fence, change));
  }

  async #context(step: NamedStep | undefined): Promise<StepContext> {
    const { db, drivers } = this.#tools;
    const operation = await heldOperation(db, this.#fence);
    const cluster = await db.clusters.load(operation.clusterId);
    if (!cluster) throw new Error("an operation's cluster is never removed");
    return {
      tools: this.#tools,
      driver: drivers.of(cluster.region),
      operation,
      cluster,
      fence: this.#fence,
      signal: this.#signal,
      onEvent: (event) => {
        if (step) this.#log.add(step.name, event);
      },
    };
  }
}

type StepResult = "held" | "done" | { readonly skipped: string };

/** How a step that ended well is journaled. */
function outcomeOf(done: StepResult, before: OperationStep | undefined): Omit<StepChange, "name"> {
  if (done === "done") return { state: "SUCCEEDED" };
  if (done !== "held") return { state: "SKIPPED", message: done.skipped };
  if (before && before.attempt > 0) {
    // What was recorded while the operation waited says more: who approved it.
    const recorded = before.state === "RUNNING" ? before.message : undefined;
    return { state: "SUCCEEDED", message: recorded ?? "already done" };
  }
  return { state: "SKIPPED", message: "nothing to do" };
}
