import type { Database } from "@millrace/db";
import { type ClusterId, isId } from "@millrace/domain";
import type { ClusterDriver } from "@millrace/provisioner";
import type { Logger } from "pino";

export interface OrphanSweeperOptions {
  readonly db: Pick<Database, "clusters">;
  readonly driver: ClusterDriver;
  readonly logger: Logger;
}

/**
 * Removes what no operation would ever come back for: a worker that was frozen in mid-step for
 * longer than its lease can, when it thaws, leave a folder or a process behind a deletion.
 *
 * Data is removed only where the database says that the cluster is deleted. Of a cluster that the
 * database does not know (another installation's folder, a database restored from an old backup)
 * the broker is stopped, and the data stays.
 */
export class OrphanSweeper {
  readonly #options: OrphanSweeperOptions;

  constructor(options: OrphanSweeperOptions) {
    this.#options = options;
  }

  async runOnce(signal?: AbortSignal): Promise<void> {
    for (const id of await this.#options.driver.list()) {
      if (signal?.aborted) return;
      if (isId("clu", id)) await this.#look(id);
    }
  }

  async #look(id: ClusterId): Promise<void> {
    const { db, driver, logger } = this.#options;
    try {
      const cluster = await db.clusters.load(id);
      if (cluster?.phase === "DELETED") {
        logger.warn({ cluster: id }, "removing what is left of a deleted cluster");
        await driver.destroy(id);
      } else if (cluster === undefined || cluster.phase === "FAILED") {
        await driver.stop(id);
      }
    } catch (error) {
      logger.error({ err: error, cluster: id }, "removing an orphan failed");
    }
  }
}
