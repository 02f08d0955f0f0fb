/** A producer that counts what it sends and what is acknowledged. It never asks the product. */
import { setTimeout as sleep } from "node:timers/promises";
import { Producer } from "@platformatic/kafka";
import { CountHistory } from "./count-history.ts";

/** Sizes of the records of a partition, in turn. */
const RECORD_BYTES = [1_000, 10_000, 3_000, 2_000, 4_000] as const;
const RECORD_BYTES_MEAN = RECORD_BYTES.reduce((sum, bytes) => sum + bytes, 0) / RECORD_BYTES.length;
/**
 * What the record batch format adds to a record without key and headers, and to a batch: less than
 * 1 % in all. It is part of a backlog, and left out of rates.
 */
const RECORD_FRAME_BYTES = 10;
const BATCH_FRAME_BYTES = 61;
const PAYLOAD = Buffer.alloc(Math.max(...RECORD_BYTES), "millrace");

const TICK_MS = 100;
/** Batches of at most 40 KB are small beside what a consumer fetches. */
const BATCH_RECORDS_MAX = 10;
/** The speed of the first fill. Several scenarios fill their topics at the same time. */
const FILL_BYTES_PER_SECOND = 1_800_000;

/** A number that lies between two others. */
export interface Range {
  low: number;
  high: number;
}

/** How many bytes are due so many milliseconds after the start. */
export type Pace = (elapsedMs: number) => number;

export function constant(bytesPerSecond: number): Pace {
  return (elapsedMs) => (bytesPerSecond * elapsedMs) / 1_000;
}

/** Nothing most of the time, and much at once. */
export function bursts(burst: { bytesPerSecond: number; onMs: number; offMs: number }): Pace {
  const periodMs = burst.onMs + burst.offMs;
  return (elapsedMs) => {
    const whole = Math.floor(elapsedMs / periodMs);
    const onMs = whole * burst.onMs + Math.min(elapsedMs - whole * periodMs, burst.onMs);
    return (burst.bytesPerSecond * onMs) / 1_000;
  };
}

export class CountingProducer {
  /** Of all partitions. */
  readonly ackedRecords = new CountHistory();
  readonly ackedBytes = new CountHistory();
  /** Records of each partition. */
  readonly acked: readonly CountHistory[];
  readonly #sent: number[];
  /** Of each partition and offset: the bytes of the batches before it. */
  readonly #bytesBelow: number[][];
  readonly #topic: string;
  readonly #producer: Producer;
  #run: { stopped: boolean; readonly done: Promise<void> } | undefined;

  constructor(bootstrap: string, topic: string, partitions: number) {
    this.#topic = topic;
    this.#producer = new Producer({ clientId: "drill", bootstrapBrokers: [bootstrap] });
    this.acked = Array.from({ length: partitions }, () => new CountHistory());
    this.#sent = this.acked.map(() => 0);
    this.#bytesBelow = this.acked.map(() => [0]);
  }

  /** The end of each partition: what is sent may be there, what is acknowledged is. */
  ends(): Range[] {
    return this.acked.map(({ total }, partition) => ({
      low: total,
      high: this.#sent[partition]!,
    }));
  }

  /** Bytes of the batches between two offsets, both of them sent. */
  bytesBetween(partition: number, from: number, to: number): number {
    const below = this.#bytesBelow[partition]!;
    return below[to]! - below[from]!;
  }

  /** Writes a backlog: so many bytes to each partition. */
  async fill(bytes: readonly number[]): Promise<void> {
    const left = bytes.map((each) => Math.ceil(each / RECORD_BYTES_MEAN));
    const startedAt = Date.now();
    let filled = 0;
    while (left.some((records) => records > 0)) {
      const records = left.map((each) => Math.min(each, BATCH_RECORDS_MAX));
      await this.#send(records);
      for (const [partition, sent] of records.entries()) {
        left[partition]! -= sent;
        filled += sent * RECORD_BYTES_MEAN;
      }
      const dueAt = startedAt + (filled / FILL_BYTES_PER_SECOND) * 1_000;
      await sleep(Math.max(0, dueAt - Date.now()));
    }
  }

  /** Produces at this pace, to all partitions in turn, until it is stopped. */
  start(pace: Pace): void {
    const run = { stopped: false };
    this.#run = Object.assign(run, { done: this.#produce(pace, run) });
  }

  async stop(): Promise<void> {
    if (this.#run === undefined) return;
    this.#run.stopped = true;
    await this.#run.done;
    this.#run = undefined;
  }

  async close(): Promise<void> {
    await this.stop();
    await this.#producer.close();
  }

  async #produce(pace: Pace, run: { stopped: boolean }): Promise<void> {
    const startedAt = Date.now();
    const batchMax = BATCH_RECORDS_MAX * this.acked.length;
    let produced = 0;
    while (!run.stopped) {
      const due = Math.floor(pace(Date.now() - startedAt) / RECORD_BYTES_MEAN) - produced;
      const records = this.acked.map(() => 0);
      for (let n = 0; n < Math.min(due, batchMax); n++, produced++) {
        records[produced % records.length]! += 1;
      }
      await this.#send(records);
      await sleep(TICK_MS);
    }
  }

  async #send(records: readonly number[]): Promise<void> {
    const messages = records.flatMap((count, partition) =>
      Array.from({ length: count }, (_, index) => this.#next(partition, index === 0)),
    );
    if (messages.length === 0) return;
    await this.#producer.send({ messages });
    this.ackedRecords.add(messages.length);
    this.ackedBytes.add(messages.reduce((sum, { value }) => sum + value.length, 0));
    for (const [partition, count] of records.entries()) this.acked[partition]!.add(count);
  }

  /** The partition's next record, which is as good as sent. */
  #next(partition: number, opensBatch: boolean) {
    const offset = this.#sent[partition]!++;
    const bytes = RECORD_BYTES[offset % RECORD_BYTES.length]!;
    const frame = RECORD_FRAME_BYTES + (opensBatch ? BATCH_FRAME_BYTES : 0);
    const below = this.#bytesBelow[partition]!;
    below.push(below[offset]! + bytes + frame);
    return { topic: this.#topic, partition, value: PAYLOAD.subarray(0, bytes) };
  }
}
