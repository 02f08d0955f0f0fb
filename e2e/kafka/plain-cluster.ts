/** Several Millrace brokers of a test's own, which share a PostgreSQL database and a bucket. The test may kill each. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningPostgres, startPostgres } from "@millrace/launcher";
import {
  folderAsBucket,
  type NodeOptions,
  PlainBroker,
  type RunningBroker,
} from "./plain-broker.ts";

/** How long a broker is missed before others take its partitions over. */
export const SESSION_TIMEOUT_MS = 3_000;

export class PlainCluster implements RunningBroker {
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-cluster-"));
  readonly #brokers: PlainBroker[] = [];
  readonly #count: number;
  readonly #chance: () => number;
  readonly #options: Omit<NodeOptions, "node">;
  #postgres: RunningPostgres | undefined;
  #killed: PlainBroker | undefined;

  /**
   * @param chance says which broker is killed.
   * @param options of each broker. They share the bucket: a folder of the cluster's own where there is none.
   */
  constructor(count: number, chance: () => number, options: Omit<NodeOptions, "node"> = {}) {
    this.#count = count;
    this.#options = options;
    this.#chance = chance;
  }

  get bootstrap(): string {
    return this.#brokers.map(({ bootstrap }) => bootstrap).join(",");
  }

  /** @throws Error where a broker does not serve; nothing runs any more then. */
  async create(): Promise<void> {
    try {
      await this.#create();
    } catch (error) {
      await this.remove().catch(() => {});
      throw error;
    }
  }

  async #create(): Promise<void> {
    const dir = join(this.#folder, "postgres");
    this.#postgres = await startPostgres({ dir, disposable: true });
    const further = [
      "cluster.id=drill",
      `metadata.database.url=${this.#postgres.url}`,
      `broker.session.timeout.ms=${SESSION_TIMEOUT_MS}`,
      "leader.balance.interval.ms=2000",
      "offsets.topic.num.partitions=6",
      "transaction.state.log.num.partitions=6",
      "share.coordinator.state.topic.num.partitions=6",
      ...(this.#options.further ?? []),
    ];
    const bucket = folderAsBucket(join(this.#folder, "objects"));
    for (let node = 1; node <= this.#count; node++) {
      const broker = new PlainBroker({ bucket, ...this.#options, node, further });
      this.#brokers.push(broker);
      await broker.create();
    }
  }

  /** Starts the broker that was killed. */
  async start(): Promise<void> {
    await this.#killed?.start();
    this.#killed = undefined;
  }

  async kill(): Promise<void> {
    const broker = this.#brokers[Math.floor(this.#chance() * this.#count)];
    await broker?.kill();
    this.#killed = broker;
  }

  async remove(): Promise<void> {
    const ends = await Promise.allSettled(this.#brokers.map((broker) => broker.remove()));
    await this.#postgres?.stop();
    rmSync(this.#folder, { recursive: true });
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }
}
