/** A client's program in the steady mode (clients/programs.ts): what its application has sent, got back and read. */
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Program } from "../clients/programs.ts";
import { runLines } from "../kafka/clients/client.ts";

/** Longer than any drill. */
const RUN_SECONDS_MAX = 4 * 3_600;
const START_MS_MAX = 60_000;
const FLUSH_MS_MAX = 150_000;
const CATCH_UP_MS_MAX = 30_000;
const POLL_MS = 50;

export interface Load {
  bootstrap: string;
  topic: string;
  partitions: number;
  recordsPerSecond: number;
  isTuned: boolean;
}

/** What is known of one partition. Records are numbered in the order in which they were sent. */
class PartitionRecord {
  /** Times of the acknowledgements: Unix time in ms. */
  readonly ackedAt: number[] = [];
  readonly acked = new Set<number>();
  /** In the order in which the consumer got them. */
  readonly read: number[] = [];

  /** Whether the consumer has got each acknowledged record. */
  get isConsumed(): boolean {
    const read = new Set(this.read);
    return Array.from(this.acked).every((value) => read.has(value));
  }
}

export class SteadyClient {
  readonly name: string;
  readonly topic: string;
  readonly partitions: readonly PartitionRecord[];
  /** Errors that have reached the application, of the producer and the consumer. */
  readonly errors: string[] = [];
  readonly #input = new PassThrough();
  readonly #end = new AbortController();
  readonly #done: Promise<void>;
  #isFlushed = false;
  #failure: Error | undefined;

  constructor({ name, command: [command = "", ...args] }: Program, load: Load) {
    this.name = name;
    this.topic = load.topic;
    this.partitions = Array.from({ length: load.partitions }, () => new PartitionRecord());
    this.#done = runLines(command, args, {
      input: this.#input,
      onLine: (line) => this.#take(line),
      signal: this.#end.signal,
      env: { ...process.env, ...environment(load) },
      secondsMax: RUN_SECONDS_MAX,
    }).catch((error) => {
      this.#failure = error;
    });
  }

  /** Waits until each partition has acknowledgements and has been read. @throws Error if that takes too long. */
  async started(): Promise<void> {
    const isRunning = () =>
      this.partitions.every(({ ackedAt, read }) => ackedAt.length > 0 && read.length > 0);
    if (await this.#within(START_MS_MAX, isRunning)) return;
    throw new Error(`${this.name} does not produce and consume: ${this.errors.slice(0, 3)}`);
  }

  /** Ends the load, waits for what is under way and for the consumer, and ends the program. */
  async finish(): Promise<void> {
    this.#input.end();
    if (!(await this.#within(FLUSH_MS_MAX, () => this.#isFlushed))) {
      this.errors.push(`not flushed within ${FLUSH_MS_MAX} ms`);
    }
    const hasCaughtUp = () => this.partitions.every((each) => each.isConsumed);
    // What the consumer has not read by then is reported as missing.
    await this.#within(CATCH_UP_MS_MAX, hasCaughtUp, 10 * POLL_MS);
    await this.kill();
  }

  async kill(): Promise<void> {
    this.#end.abort();
    await this.#done;
  }

  async #within(msMax: number, isTrue: () => boolean, pollMs = POLL_MS): Promise<boolean> {
    const deadline = Date.now() + msMax;
    while (!isTrue()) {
      if (this.#failure !== undefined) throw this.#failure;
      if (Date.now() > deadline) return false;
      await sleep(pollMs);
    }
    return true;
  }

  #take(line: string): void {
    const [what = "", partition, value, at] = line.split(" ");
    const record = this.partitions[Number(partition)];
    if (what === "flushed") this.#isFlushed = true;
    else if (what === "read") record?.read.push(Number(value));
    else if (what === "acked") {
      record?.acked.add(Number(value));
      record?.ackedAt.push(Number(at));
    } else this.errors.push(line);
  }
}

function environment(load: Load): Record<string, string> {
  return {
    CLIENT_BOOTSTRAP: load.bootstrap,
    CLIENT_PROTOCOL: "PLAINTEXT",
    CLIENT_TOPIC: load.topic,
    CLIENT_PARTITIONS: String(load.partitions),
    CLIENT_RECORDS_PER_SECOND: String(load.recordsPerSecond),
    CLIENT_TUNED: load.isTuned ? "1" : "0",
  };
}
