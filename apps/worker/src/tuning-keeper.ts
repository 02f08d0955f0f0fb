import { applyTuning, type TuningTools } from "@millrace/core";
import type { Database } from "@millrace/db";
import { type Cluster, SERVING_PHASES } from "@millrace/domain";
import type { Logger } from "pino";

export interface TuningKeeperOptions extends Omit<TuningTools, "db"> {
  readonly db: Pick<Database, "tenant"> & { readonly fleet: Pick<Database["fleet"], "clusters"> };
  readonly logger: Logger;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/** A broker that rejects values does so until the values or its machine change. */
const REFUSED_PAUSE_MS = 30_000;

/** The keeper's memory of one cluster; losing it costs one more attempt. */
interface Refusal {
  readonly version: number;
  readonly until: number;
}

/**
 * Makes sure that every running broker has the requested tuning: after a change that it missed, after a
 * restart, and after a change at the broker itself. Several workers may do so concurrently: the version of the
 * tuning serializes them with each other and with changes of it.
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

  /** Starts a check of each cluster and waits for none, so that a broker that hangs delays no other. */
  async runOnce(): Promise<void> {
    const serving = await this.#options.db.fleet.clusters.inPhases(SERVING_PHASES);
    const clusters = serving.filter(({ paused }) => !paused);
    const ids = new Set<string>(clusters.map((cluster) => cluster.id));
    for (const id of this.#refusals.keys()) if (!ids.has(id)) this.#refusals.delete(id);
    for (const cluster of clusters) {
      if (this.#underWay.has(cluster.id) || this.#isRefused(cluster)) continue;
      const look = this.#attend(cluster).finally(() => this.#underWay.delete(cluster.id));
      this.#underWay.set(cluster.id, look);
    }
  }

  /** Waits for the checks in progress. */
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
      const db = this.#options.db.tenant(cluster.organizationId);
      const result = await applyTuning({ ...this.#options, db }, cluster);
      if (result === "applied")
        log.info({ version }, "the stored tuning was applied to the broker");
      if (result !== "refused") return;
      this.#refusals.set(cluster.id, { version, until: this.#now() + REFUSED_PAUSE_MS });
      log.warn({ version }, "the broker rejects its tuning");
    } catch (error) {
      log.error({ err: error }, "applying the tuning failed");
    }
  }
}
