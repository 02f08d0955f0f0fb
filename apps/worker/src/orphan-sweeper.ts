import type { Database } from "@millrace/db";
import { type ClusterId, isId } from "@millrace/domain";
import type { ClusterDriver, ClusterDrivers } from "@millrace/provisioner";
import type { Logger } from "pino";

export interface OrphanSweeperOptions {
  readonly db: { readonly fleet: Pick<Database["fleet"], "clusters"> };
  readonly drivers: Pick<ClusterDrivers, "all">;
  readonly logger: Logger;
}

/**
 * Removes what no operation would ever clean up: a worker that was suspended in the middle of a step for
 * longer than its lease can, when it resumes, leave a folder or a process of a deleted cluster.
 *
 * Data is removed only if the database says that the cluster is deleted. If the database does not know
 * the cluster (another installation's folder, a database restored from an old backup), the broker is
 * stopped and the data stays.
 */
export class OrphanSweeper {
  readonly #options: OrphanSweeperOptions;

  constructor(options: OrphanSweeperOptions) {
    this.#options = options;
  }

  async runOnce(signal?: AbortSignal): Promise<void> {
    for (const driver of this.#options.drivers.all()) {
      try {
        await this.#sweep(driver, signal);
      } catch (error) {
        // A provider that does not answer does not stop the others.
        this.#options.logger.error({ err: error, driver: driver.name }, "a sweep failed");
      }
    }
  }

  async #sweep(driver: ClusterDriver, signal?: AbortSignal): Promise<void> {
    for (const id of await driver.list()) {
      if (signal?.aborted) return;
      if (isId("clu", id)) await this.#look(driver, id);
    }
  }

  async #look(driver: ClusterDriver, id: ClusterId): Promise<void> {
    const { db, logger } = this.#options;
    try {
      const cluster = await db.fleet.clusters.load(id);
      if (cluster?.phase === "DELETED") {
        // An account that other installations share may list clusters that are gone.
        if (await driver.isDestroyed(id)) return;
        logger.warn({ cluster: id }, "removing what is left of a deleted cluster");
        await driver.destroy(id);
      } else if (!driver.capabilities.exclusive) {
        // Unknown clusters may belong to another installation that shares the account.
        if (cluster === undefined) logger.warn({ cluster: id }, "an unknown cluster has resources");
      } else if (cluster === undefined || cluster.phase === "FAILED") {
        await driver.stop(id);
      }
    } catch (error) {
      logger.error({ err: error, cluster: id }, "removing an orphan failed");
    }
  }
}
