import type { Database } from "@millrace/db";
import type { ClusterProvider, OperationId } from "@millrace/domain";
import type { Logger } from "pino";
import { PeriodicTask } from "./periodic-task.ts";

/**
 * Operations that one worker runs at the same time, each provider's by themselves: those on AWS wait
 * minutes for machines and for their turn to run Terraform, and must not keep local ones waiting.
 */
export const SLOTS: Readonly<Record<ClusterProvider, number>> = { local: 12, aws: 6 };
const PROVIDERS = Object.keys(SLOTS) as ClusterProvider[];
const SLOTS_IN_ALL = SLOTS.local + SLOTS.aws;
/**
 * The queue delivers at once what the API hands in; the sweep finds what a dead worker left, as
 * soon as its lease has run out.
 */
const SWEEP_INTERVAL_MS = 1_000;

export interface OperationRunnerOptions {
  readonly db: {
    readonly queue: Pick<Database["queue"], "work" | "stop">;
    readonly journal: Pick<Database["journal"], "unclaimed" | "providerOf">;
  };
  readonly logger: Logger;
  /**
   * Claims the operation and runs it to its end, or does nothing where it is done or claimed by
   * another. When `signal` aborts it hands the operation back and returns.
   */
  readonly runOperation: (id: OperationId, signal: AbortSignal) => Promise<unknown>;
}

interface Running {
  readonly provider: ClusterProvider;
  readonly end: Promise<void>;
}

/** Gives operations to the engine: delivered ones, and those that nobody works on any more. */
export class OperationRunner {
  readonly #options: OperationRunnerOptions;
  readonly #stopping = new AbortController();
  readonly #running = new Map<OperationId, Running>();
  readonly #sweep: PeriodicTask;

  constructor(options: OperationRunnerOptions) {
    this.#options = options;
    this.#sweep = new PeriodicTask({
      intervalMs: SWEEP_INTERVAL_MS,
      run: () => this.#takeUnclaimed(),
      onError: (error) => options.logger.error({ err: error }, "sweep for operations failed"),
    });
  }

  async start(): Promise<void> {
    await this.#options.db.queue.work(SLOTS_IN_ALL, (id) => this.#takeDelivered(id));
    this.#sweep.start();
  }

  /** Takes nothing more, has what runs handed back, and waits for that. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#sweep.stop();
    await Promise.all([...this.#running.values()].map(({ end }) => end));
    await this.#options.db.queue.stop();
  }

  /** What finds no slot free is not kept here, where it would hold up the queue: the sweep finds it. */
  async #takeDelivered(id: OperationId): Promise<void> {
    const provider = await this.#options.db.journal.providerOf(id);
    if (provider !== undefined) await this.#run(id, provider);
  }

  async #takeUnclaimed(): Promise<void> {
    for (const provider of PROVIDERS) {
      if (this.#room(provider) <= 0) continue;
      const ids = await this.#options.db.journal.unclaimed(SLOTS[provider], provider);
      // Not awaited: a sweep that waited for operations would not see the next ones.
      for (const id of ids) void this.#run(id, provider);
    }
  }

  #room(provider: ClusterProvider): number {
    const running = [...this.#running.values()].filter((each) => each.provider === provider);
    return SLOTS[provider] - running.length;
  }

  /** Never rejects: what went wrong is in the journal, or will be found there unfinished. */
  async #run(id: OperationId, provider: ClusterProvider): Promise<void> {
    const { logger, runOperation } = this.#options;
    if (this.#stopping.signal.aborted || this.#running.has(id)) return;
    if (this.#room(provider) <= 0) return;
    const end = runOperation(id, this.#stopping.signal).then(
      (result) => logger.debug({ operation: id, result }, "operation attended"),
      (error: unknown) => {
        logger.error({ err: error, operation: id }, "operation was interrupted");
      },
    );
    this.#running.set(id, { provider, end });
    try {
      await end;
    } finally {
      this.#running.delete(id);
    }
  }
}
