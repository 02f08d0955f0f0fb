/** Moves partitions from broker to broker with AlterPartitionReassignments. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Admin, Kafka, logLevel } from "kafkajs";
import type { TestCluster } from "../product.ts";

const MOVE_MS_MAX = 30_000;
const POLL_MS = 10;

/** Partitions by topic. */
export type Selection = ReadonlyMap<string, readonly number[]>;

/** Moves that were requested together. Times are Unix time in ms. */
export interface Step {
  selection: Selection;
  requestedAt: number;
  /** All are led by their new brokers, and no reassignment is listed any more. */
  completedAt: number;
}

export class Mover {
  readonly #admin: Admin;
  readonly #brokers: number[] = [];

  constructor({ bootstrap }: TestCluster) {
    const kafka = new Kafka({
      clientId: "drill-mover",
      brokers: bootstrap.split(","),
      logLevel: logLevel.NOTHING,
    });
    this.#admin = kafka.admin();
  }

  async connect(): Promise<void> {
    await this.#admin.connect();
    const { brokers } = await this.#admin.describeCluster();
    this.#brokers.push(...brokers.map(({ nodeId }) => nodeId).toSorted((a, b) => a - b));
  }

  async disconnect(): Promise<void> {
    await this.#admin.disconnect();
  }

  /** Records that each partition of the topic has. */
  async recordCounts(topic: string): Promise<number[]> {
    const counts: number[] = [];
    for (const { partition, high, low } of await this.#admin.fetchTopicOffsets(topic)) {
      counts[partition] = Number(high) - Number(low);
    }
    return counts;
  }

  /** Moves each partition to the broker after its leader. @throws Error if one is not led there in time. */
  async move(selection: Selection): Promise<Step> {
    const leaders = await this.#leaders([...selection.keys()]);
    const targets = new Map<string, number>();
    const topics = Array.from(selection, ([topic, partitions]) => ({
      topic,
      partitionAssignment: partitions.map((partition) => {
        const target = this.#after(leaders.get(`${topic} ${partition}`));
        targets.set(`${topic} ${partition}`, target);
        return { partition, replicas: [target] };
      }),
    }));
    const requestedAt = Date.now();
    await this.#admin.alterPartitionReassignments({ topics });
    while (!(await this.#isDone(targets))) {
      if (Date.now() > requestedAt + MOVE_MS_MAX) {
        throw new Error(`${Array.from(targets.keys())} are not moved after ${MOVE_MS_MAX} ms`);
      }
      await sleep(POLL_MS);
    }
    return { selection, requestedAt, completedAt: Date.now() };
  }

  /** Brokers learn of moves one after the other, so an empty list does not mean that the one that is asked has. */
  async #isDone(targets: ReadonlyMap<string, number>): Promise<boolean> {
    if ((await this.#admin.listPartitionReassignments({})).topics.length > 0) return false;
    const topics = new Set(Array.from(targets.keys(), (key) => key.split(" ")[0]!));
    const leaders = await this.#leaders([...topics]);
    return Array.from(targets).every(([key, target]) => leaders.get(key) === target);
  }

  /** By topic and partition. */
  async #leaders(topics: string[]): Promise<Map<string, number>> {
    const metadata = await this.#admin.fetchTopicMetadata({ topics });
    return new Map(
      metadata.topics.flatMap(({ name, partitions }) =>
        partitions.map((each) => [`${name} ${each.partitionId}`, each.leader] as const),
      ),
    );
  }

  #after(leader: number | undefined): number {
    const at = this.#brokers.indexOf(leader ?? -1);
    return this.#brokers[(at + 1) % this.#brokers.length]!;
  }
}
