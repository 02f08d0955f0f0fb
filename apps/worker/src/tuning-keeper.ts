import { applyTuning, type TuningTools } from "@millrace/core";
import type { Database } from "@millrace/db";
import { type Cluster, SERVING_PHASES } from "@millrace/domain";
import type { Logger } from "pino";

export interface TuningKeeperOptions extends TuningTools {
  readonly db: Pick<Database, "clusters" | "transaction" | "tuning">;
  readonly logger: Logger;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** A broker that refuses values does so until they, or its machine, have changed. */
const REFUSED_PAUSE_MS = 30_000;

/** What the keeper remembers of one cluster; losing it costs one more attempt. */
interface Refusal {
  readonly version: number;
  readonly until: number;
}

/**
 * Sees to it that every running broker has the tuning that was asked for: after a change that it
 * missed, after a restart, and after a change at the broker itself. Several workers may do it at
 * once; they take turns per cluster, with each other and with those who change the tuning.
 */
export class TuningKeeper {
  readonly #options: TuningKeeperOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #refusals = new Map<string, Refusal>();
  readonly #now: () => number;

  constructor(options: TuningKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Begins a look at each cluster and waits for none: a broker that hangs keeps nobody waiting. */
  async runOnce(): Promise<void> {
    const serving = await this.#options.db.clusters.inPhases(SERVING_PHASES);
    const clusters = serving.filter(({ paused }) => !paused);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#refusals.keys()) if (!ids.has(id)) this.#refusals.delete(id);
    for (const cluster of clusters) {
      if (this.#underWay.has(cluster.id) || this.#isRefused(cluster)) continue;
      const look = this.#attend(cluster).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, look);
    }
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  #isRefused({ id, tuning }: Cluster): boolean {
    const refusal = this.#refusals.get(id);
    return refusal?.version === tuning.version && this.#now() < refusal.until;
  }

  /** Never rejects. */
  async #attend(cluster: Cluster): Promise<void> {
    const log = this.#options.logger.child({ cluster: cluster.id });
    const { version } = cluster.tuning;
    try {
      const result = await applyTuning(this.#options, cluster);
      if (result === "applied") log.info({ version }, "the broker has been given its tuning");
      if (result !== "refused") return;
      this.#refusals.set(cluster.id, { version, until: this.#now() + REFUSED_PAUSE_MS });
      log.warn({ version }, "the broker refuses its tuning");
    } catch (error) {
      log.error({ err: error }, "applying the tuning failed");
    }
  }
}
