import type { Database, UnclaimedOperation } from "@millrace/db";
import type { ClusterProvider, OperationId, OrganizationId } from "@millrace/domain";
import type { Logger } from "pino";
import { PeriodicTask } from "./periodic-task.ts";

/**
 * Concurrent operations of one worker, per provider: those on AWS wait minutes for machines and for a Terraform
 * slot, and must not delay local ones. Waiting costs almost nothing; Terraform runs have a bound of their own.
 */
export const SLOTS: Readonly<Record<ClusterProvider, number>> = { local: 12, aws: 12 };
/**
 * Operations may wait long. So an organization takes at most this part of the slots that the others leave free,
 * and at least one, which leaves slots for the next organization.
 */
const SHARE = 1 / 2;
const SHARED: Readonly<Record<ClusterProvider, boolean>> = { local: false, aws: true };
const PROVIDERS = Object.keys(SLOTS) as ClusterProvider[];
const SLOTS_IN_ALL = SLOTS.local + SLOTS.aws;
/**
 * Unclaimed operations read per sweep. Organizations that have their share are skipped, and the list alternates
 * between organizations, so that it holds each one's first operations.
 */
const UNCLAIMED_MAX = 100;
/**
 * The queue delivers new operations at once; the sweep finds those of a dead worker once their lease has
 * expired.
 */
const SWEEP_INTERVAL_MS = 1_000;

export interface OperationRunnerOptions {
  readonly db: {
    readonly queue: Pick<Database["queue"], "work" | "stop">;
    readonly fleet: Pick<Database["fleet"], "journal">;
  };
  readonly logger: Logger;
  /**
   * Claims the operation and runs it to its end, or does nothing if it is done or claimed by another
   * worker. When `signal` aborts, it hands the operation back and returns.
   */
  readonly runOperation: (id: OperationId, signal: AbortSignal) => Promise<unknown>;
}

interface Running {
  readonly provider: ClusterProvider;
  readonly organizationId: OrganizationId;
  readonly end: Promise<void>;
}

/** Gives operations to the engine: delivered ones, and those whose worker died. */
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

  /** Takes no more operations, hands back the running ones, and waits for that. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#sweep.stop();
    await Promise.all([...this.#running.values()].map(({ end }) => end));
    await this.#options.db.queue.stop();
  }

  /** A delivery only says that there is work; the journal decides which operation is next. */
  async #takeDelivered(id: OperationId): Promise<void> {
    const provider = await this.#options.db.fleet.journal.providerOf(id);
    if (provider !== undefined) await this.#takeUnclaimed(provider);
  }

  async #takeUnclaimed(provider: ClusterProvider): Promise<void> {
    if (this.#runningAt(provider).length >= SLOTS[provider]) return;
    const waiting = await this.#options.db.fleet.journal.unclaimed(UNCLAIMED_MAX, provider);
    // Not awaited: waiting for operations would delay the next sweep.
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

  /** Never rejects: failures are in the journal, or the next sweep finds the operation unfinished. */
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
