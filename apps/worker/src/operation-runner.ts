import type { Database, UnclaimedOperation } from "@millrace/db";
import type { ClusterProvider, OperationId, OrganizationId } from "@millrace/domain";
import type { Logger } from "pino";
import { PeriodicTask } from "./periodic-task.ts";

/**
 * Operations that one worker runs at the same time, each provider's by themselves: those on AWS wait
 * minutes for machines and for their turn to run Terraform, and must not keep local ones waiting.
 * Waiting costs next to nothing; what does is bounded by itself.
 */
export const SLOTS: Readonly<Record<ClusterProvider, number>> = { local: 12, aws: 12 };
/**
 * Where operations may wait long for what never comes, an organization takes at most this part of the
 * slots that the others leave, and one at least: so there is room for whoever comes next.
 */
const SHARE = 1 / 2;
const SHARED: Readonly<Record<ClusterProvider, boolean>> = { local: false, aws: true };
const PROVIDERS = Object.keys(SLOTS) as ClusterProvider[];
const SLOTS_IN_ALL = SLOTS.local + SLOTS.aws;
/**
 * Looked at for whom there is room: those of organizations that have their share are passed over. In
 * turns, so that each organization's first ones are among them.
 */
const UNCLAIMED_MAX = 100;
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
  readonly organizationId: OrganizationId;
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
      run: async () => {
        for (const provider of PROVIDERS) await this.#takeUnclaimed(provider);
      },
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

  /** A delivery says that there is something to do; whose turn it is, the journal says. */
  async #takeDelivered(id: OperationId): Promise<void> {
    const provider = await this.#options.db.journal.providerOf(id);
    if (provider !== undefined) await this.#takeUnclaimed(provider);
  }

  async #takeUnclaimed(provider: ClusterProvider): Promise<void> {
    if (this.#runningAt(provider).length >= SLOTS[provider]) return;
    const waiting = await this.#options.db.journal.unclaimed(UNCLAIMED_MAX, provider);
    // Not awaited: a sweep that waited for operations would not see the next ones.
    for (const operation of waiting) void this.#run(operation, provider);
  }

  #runningAt(provider: ClusterProvider): Running[] {
    return [...this.#running.values()].filter((each) => each.provider === provider);
  }

  #hasRoom(provider: ClusterProvider, organizationId: OrganizationId): boolean {
    const running = this.#runningAt(provider);
    if (running.length >= SLOTS[provider]) return false;
    const own = running.filter((each) => each.organizationId === organizationId).length;
    if (!SHARED[provider] || own === 0) return true;
    const others = running.length - own;
    return own + 1 <= (SLOTS[provider] - others) * SHARE;
  }

  /** Never rejects: what went wrong is in the journal, or will be found there unfinished. */
  async #run({ id, organizationId }: UnclaimedOperation, provider: ClusterProvider): Promise<void> {
    const { logger, runOperation } = this.#options;
    if (this.#stopping.signal.aborted || this.#running.has(id)) return;
    if (!this.#hasRoom(provider, organizationId)) return;
    const end = runOperation(id, this.#stopping.signal).then(
      (result) => logger.debug({ operation: id, result }, "operation attended"),
      (error: unknown) => {
        logger.error({ err: error, operation: id }, "operation was interrupted");
      },
    );
    this.#running.set(id, { provider, organizationId, end });
    try {
      await end;
    } finally {
      this.#running.delete(id);
    }
  }
}
