import type { Database } from "@millrace/db";
import type { OperationId } from "@millrace/domain";
import type { Logger } from "pino";
import { PeriodicTask } from "./periodic-task.ts";

/**
 * Operations that one worker runs at the same time. Each mostly waits, for a broker, for AWS, or for
 * its turn to run Terraform; clusters on AWS, which take minutes, must not keep local ones waiting.
 */
const CONCURRENCY = 16;
/**
 * The queue delivers at once what the API hands in; the sweep finds what a dead worker left, as
 * soon as its lease has run out.
 */
const SWEEP_INTERVAL_MS = 1_000;

export interface OperationRunnerOptions {
  readonly db: Pick<Database, "queue" | "journal">;
  readonly logger: Logger;
  /**
   * Claims the operation and runs it to its end, or does nothing where it is done or claimed by
   * another. When `signal` aborts it hands the operation back and returns.
   */
  readonly runOperation: (id: OperationId, signal: AbortSignal) => Promise<unknown>;
}

/** Gives operations to the engine: delivered ones, and those that nobody works on any more. */
export class OperationRunner {
  readonly #options: OperationRunnerOptions;
  readonly #stopping = new AbortController();
  readonly #running = new Map<OperationId, Promise<void>>();
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
    await this.#options.db.queue.work(CONCURRENCY, (id) => this.#run(id));
    this.#sweep.start();
  }

  /** Takes nothing more, has what runs handed back, and waits for that. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#sweep.stop();
    await Promise.all(this.#running.values());
    await this.#options.db.queue.stop();
  }

  async #takeUnclaimed(): Promise<void> {
    const room = CONCURRENCY - this.#running.size;
    if (room <= 0) return;
    const ids = await this.#options.db.journal.unclaimed(CONCURRENCY);
    // Not awaited: a sweep that waited for operations would not see the next ones.
    for (const id of ids.slice(0, room)) void this.#run(id);
  }

  /** Never rejects: what went wrong is in the journal, or will be found there unfinished. */
  async #run(id: OperationId): Promise<void> {
    const { logger, runOperation } = this.#options;
    if (this.#stopping.signal.aborted || this.#running.has(id)) return;
    const run = runOperation(id, this.#stopping.signal).then(
      (result) => logger.debug({ operation: id, result }, "operation attended"),
      (error: unknown) => {
        logger.error({ err: error, operation: id }, "operation was interrupted");
      },
    );
    this.#running.set(id, run);
    try {
      await run;
    } finally {
      this.#running.delete(id);
    }
  }
}
