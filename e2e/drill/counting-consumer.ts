/**
 * A member of a group that reads at a constant pace and counts what it reads and commits. It fetches
 * ahead into a queue per partition, so that a slow fetch does not change the pace, and no partition
 * waits for another one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Consumer, type EachBatchPayload, Kafka, logLevel } from "kafkajs";
import { CountHistory } from "./count-history.ts";
import type { Range } from "./counting-producer.ts";

const COMMIT_INTERVAL_MS = 250;
const TICK_MS = 20;
/** A reader that this process held up makes up for no more than this. */
const ARREARS_SECONDS_MAX = 2;
/** A partition is fetched until so much of it is queued, and again when the half is read. */
const QUEUE_BYTES_MAX = 1_000_000;
const FETCH_BYTES_PER_PARTITION = 256 * 1_024;
const FETCH_WAIT_MS_MAX = 200;
const COMMIT_MS_MAX = 10_000;

export interface ReaderOptions {
  bootstrap: string;
  topic: string;
  groupId: string;
  partitions: number;
  bytesPerSecond: number;
  /** Whether that is the pace of each partition, as of threads of their own, or of all together. */
  pace: "partition" | "member";
  /** A reader that never commits tells the broker nothing of its position. */
  commits: boolean;
}

/** What is fetched of a partition and not read yet. */
interface Queue {
  /** The next record that is fetched. */
  end: number;
  /** Of each record. */
  sizes: number[];
  bytes: number;
}

export class CountingConsumer {
  /** Bytes of the records that were read, of all partitions. */
  readonly readBytes = new CountHistory();
  readonly #options: ReaderOptions;
  readonly #consumer: Consumer;
  /** By partition, as are the next record to read, what is committed, and what is on its way to be. */
  readonly #queues: Queue[];
  readonly #positions: number[];
  readonly #committed: number[];
  readonly #committing: number[];
  readonly #paused = new Set<number>();
  #crash: Error | undefined;
  #closed = false;
  #loops: Promise<void>[] = [];

  constructor(options: ReaderOptions) {
    const { bootstrap, groupId, partitions } = options;
    this.#options = options;
    const zeros = () => Array.from({ length: partitions }, () => 0);
    this.#queues = zeros().map(() => ({ end: 0, sizes: [], bytes: 0 }));
    this.#positions = zeros();
    this.#committed = zeros();
    this.#committing = zeros();
    const kafka = new Kafka({
      clientId: "drill",
      brokers: [bootstrap],
      logLevel: logLevel.NOTHING,
    });
    this.#consumer = kafka.consumer({
      groupId,
      maxBytesPerPartition: FETCH_BYTES_PER_PARTITION,
      maxWaitTimeInMs: FETCH_WAIT_MS_MAX,
    });
    this.#consumer.on("consumer.crash", ({ payload }) => {
      this.#crash = payload.error;
    });
  }

  /** Joins the group, and reads from the beginning once it has its partitions. */
  async join(): Promise<void> {
    const { topic, partitions, pace, commits } = this.#options;
    const joined = new Promise<void>((resolve) => {
      this.#consumer.on("consumer.group_join", () => resolve());
    });
    await this.#consumer.connect();
    await this.#consumer.subscribe({ topic, fromBeginning: true });
    await this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: partitions,
      eachBatch: async (payload) => this.#enqueue(payload),
    });
    await joined;
    const all = [...this.#queues.keys()];
    const lanes = pace === "member" ? [all] : all.map((partition) => [partition]);
    this.#loops = lanes.map((lane) => this.#read(lane));
    if (commits) this.#loops.push(this.#commitRegularly());
  }

  /** The committed offset of each partition: one of the two while a commit is on its way. */
  commits(): Range[] {
    return this.#committed.map((committed, partition) => {
      const committing = this.#committing[partition]!;
      return { low: Math.min(committed, committing), high: Math.max(committed, committing) };
    });
  }

  /** The next record of each partition. */
  positions(): readonly number[] {
    return this.#positions;
  }

  pause(...partitions: number[]): void {
    for (const partition of partitions) this.#paused.add(partition);
    this.#consumer.pause([{ topic: this.#options.topic, partitions }]);
  }

  resume(...partitions: number[]): void {
    for (const partition of partitions) this.#paused.delete(partition);
    this.#consumer.resume([{ topic: this.#options.topic, partitions }]);
  }

  /** Goes back by so many records on the paused partitions; resolves once that is committed. */
  async rewind(records: number): Promise<void> {
    for (const partition of this.#paused) {
      const position = this.#positions[partition]! - records;
      this.#positions[partition] = position;
      this.#queues[partition] = { end: position, sizes: [], bytes: 0 };
      const offset = String(position);
      this.#consumer.seek({ topic: this.#options.topic, partition, offset });
    }
    await this.untilCommitted();
  }

  /** Waits until all that was read is committed. */
  async untilCommitted(): Promise<void> {
    const isCommitted = (offset: number, partition: number) =>
      offset === this.#committed[partition];
    for (let waited = 0; waited < COMMIT_MS_MAX; waited += TICK_MS) {
      if (this.#crash) throw this.#crash;
      if (this.#positions.every(isCommitted)) return;
      await sleep(TICK_MS);
    }
    throw new Error(`no commit in ${COMMIT_MS_MAX} ms`);
  }

  /** Leaves the group. */
  async leave(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await Promise.all(this.#loops);
    await this.#consumer.disconnect();
    if (this.#crash) throw this.#crash;
  }

  #enqueue({ batch, resolveOffset, isStale }: EachBatchPayload): void {
    const { topic, partition, messages } = batch;
    const queue = this.#queues[partition]!;
    if (isStale() || this.#closed) return;
    for (const { offset, value } of messages) {
      if (Number(offset) !== queue.end) {
        throw new Error(`${topic}-${partition}: ${offset} comes after ${queue.end - 1}`);
      }
      const bytes = value?.length ?? 0;
      queue.sizes.push(bytes);
      queue.bytes += bytes;
      queue.end += 1;
      resolveOffset(offset);
    }
    if (queue.bytes > QUEUE_BYTES_MAX) this.#consumer.pause([{ topic, partitions: [partition] }]);
  }

  /** Reads these partitions in turn, all together at the pace. */
  async #read(lane: readonly number[]): Promise<void> {
    const { bytesPerSecond } = this.#options;
    let readUntil = Date.now();
    let credit = 0;
    let turn = 0;
    while (!this.#closed) {
      await sleep(TICK_MS);
      const now = Date.now();
      const earned = (bytesPerSecond * (now - readUntil)) / 1_000;
      credit = Math.min(credit + earned, bytesPerSecond * ARREARS_SECONDS_MAX);
      readUntil = now;
      for (let empty = 0; empty < lane.length && credit > 0; turn++) {
        const bytes = this.#take(lane[turn % lane.length]!);
        empty = bytes === undefined ? empty + 1 : 0;
        credit -= bytes ?? 0;
        // A reader without records is not owed the time.
        if (empty === lane.length) credit = 0;
      }
    }
  }

  /** Reads one record of the partition: its bytes. */
  #take(partition: number): number | undefined {
    const queue = this.#queues[partition]!;
    const bytes = this.#paused.has(partition) ? undefined : queue.sizes.shift();
    if (bytes === undefined) return undefined;
    const before = queue.bytes;
    queue.bytes -= bytes;
    this.#positions[partition]! += 1;
    this.readBytes.add(bytes);
    const half = QUEUE_BYTES_MAX / 2;
    if (before >= half && queue.bytes < half) {
      this.#consumer.resume([{ topic: this.#options.topic, partitions: [partition] }]);
    }
    return bytes;
  }

  async #commitRegularly(): Promise<void> {
    while (!this.#closed && this.#crash === undefined) {
      const moved = this.#positions.flatMap((offset, partition) =>
        offset === this.#committed[partition] ? [] : [{ partition, offset }],
      );
      if (moved.length > 0) await this.#commit(moved);
      await sleep(COMMIT_INTERVAL_MS);
    }
  }

  async #commit(moved: readonly { partition: number; offset: number }[]): Promise<void> {
    for (const { partition, offset } of moved) this.#committing[partition] = offset;
    const { topic } = this.#options;
    await this.#consumer.commitOffsets(
      moved.map(({ partition, offset }) => ({ topic, partition, offset: String(offset) })),
    );
    for (const { partition, offset } of moved) this.#committed[partition] = offset;
  }
}
