/** A topic with a producer and a group that count for themselves, and what the API says meanwhile. */
import { setTimeout as sleep } from "node:timers/promises";
import { createTopic, type Json, rest, type TestCluster, unique } from "../product.ts";
import { CountingConsumer, type ReaderOptions } from "./counting-consumer.ts";
import { CountingProducer, type Range } from "./counting-producer.ts";

const OBSERVE_INTERVAL_MS = 1_500;
/** What the catch-up status tells of is sampled every second. */
const REST_MS = 2_500;
const ARRIVAL_CHECK_MS = 25;
/** What was acknowledged this lately may be on its way to the reader. */
const ON_ITS_WAY_MS = 100;

/** What the client counted before and after a call of the API: the truth lies between the two. */
interface Truth {
  /** Of each partition, in records and in bytes. */
  records: Range[];
  bytes: Range[];
}

/** One answer of the API about the group. */
export interface Answer {
  /** When it was asked for, and when it was there, milliseconds since the epoch. */
  askedAt: number;
  at: number;
  truth: Truth;
  body: Json;
}

export interface Observation {
  /** `GET /v1/clusters/{id}/consumer-groups/{group}` */
  group: Answer;
  /** The group in `GET /v1/clusters/{id}/catch-up`; undefined where it is not there yet. */
  catchUp: Answer | undefined;
}

export class Workload {
  readonly topic: string;
  readonly groupId: string;
  readonly producer: CountingProducer;
  readonly observations: Observation[] = [];
  readonly #cluster: TestCluster;
  readonly #partitions: number;
  #reading: Reading | undefined;
  #observing: { stopped: boolean; readonly done: Promise<void> } | undefined;

  private constructor(cluster: TestCluster, topic: string, partitions: number) {
    this.#cluster = cluster;
    this.#partitions = partitions;
    this.topic = topic;
    this.groupId = `${topic}-readers`;
    this.producer = new CountingProducer(cluster.bootstrap, topic, partitions);
  }

  static async open(cluster: TestCluster, name: string, partitions: number): Promise<Workload> {
    const topic = unique(name);
    await createTopic(cluster.id, topic, partitions);
    return new Workload(cluster, topic, partitions);
  }

  /** The member that has read, and since when. */
  get reading(): Reading {
    if (this.#reading === undefined) throw new Error(`nobody has read ${this.topic}`);
    return this.#reading;
  }

  /** A member joins and reads at this pace, each partition by default; the API is observed from now on. */
  async read(
    bytesPerSecond: number,
    options: Partial<Pick<ReaderOptions, "pace" | "commits">> = {},
  ): Promise<CountingConsumer> {
    const { topic, groupId } = this;
    const [bootstrap, partitions] = [this.#cluster.bootstrap, this.#partitions];
    const consumer = new CountingConsumer({
      ...{ bootstrap, topic, groupId, partitions, bytesPerSecond },
      ...{ pace: "partition", commits: true, ...options },
    });
    await consumer.join();
    this.#reading = { consumer, since: Date.now() };
    const observing = { stopped: false };
    this.#observing = Object.assign(observing, { done: this.#observe(observing) });
    return consumer;
  }

  /** Waits until the member has read everything: when that was. */
  async untilRead(secondsMax: number): Promise<number> {
    const hasRead = () => {
      const positions = this.reading.consumer.positions();
      const then = Date.now() - ON_ITS_WAY_MS;
      return this.producer.acked.every((acked, n) => positions[n]! >= acked.at(then));
    };
    const deadline = Date.now() + secondsMax * 1_000;
    while (Date.now() < deadline) {
      if (hasRead()) return Date.now();
      await sleep(ARRIVAL_CHECK_MS);
    }
    throw new Error(`${this.groupId} has not read everything after ${secondsMax} s`);
  }

  /** What the API says once nothing moves any more. */
  async atRest(): Promise<Observation> {
    await this.producer.stop();
    await sleep(REST_MS);
    return this.observe();
  }

  async observe(): Promise<Observation> {
    const path = `/v1/clusters/${this.#cluster.id}`;
    const group = await this.#ask(`${path}/consumer-groups/${this.groupId}`);
    const all = await this.#ask(`${path}/catch-up`);
    const body = all.body.groups.find((each: Json) => each.group === this.groupId);
    return { group, catchUp: body === undefined ? undefined : { ...all, body } };
  }

  async close(): Promise<void> {
    if (this.#observing) this.#observing.stopped = true;
    await this.#observing?.done;
    await this.#reading?.consumer.leave();
    await this.producer.close();
  }

  async #observe(observing: { stopped: boolean }): Promise<void> {
    while (!observing.stopped) {
      this.observations.push(await this.observe());
      await sleep(OBSERVE_INTERVAL_MS);
    }
  }

  async #ask(path: string): Promise<Answer> {
    const before = this.#counts();
    const askedAt = Date.now();
    const { status, body } = await rest("GET", path);
    if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
    return { askedAt, at: Date.now(), truth: this.#truthBetween(before, this.#counts()), body };
  }

  /** The least and the most that the lag can have been. */
  #truthBetween(before: Counts, after: Counts): Truth {
    const truth: Truth = { records: [], bytes: [] };
    for (const partition of before.ends.keys()) {
      const end = both(before.ends[partition]!, after.ends[partition]!);
      const commit = both(before.commits[partition]!, after.commits[partition]!);
      const least = [Math.min(commit.high, end.low), end.low] as const;
      const most = [commit.low, end.high] as const;
      truth.records.push({ low: least[1] - least[0], high: most[1] - most[0] });
      truth.bytes.push({
        low: this.producer.bytesBetween(partition, ...least),
        high: this.producer.bytesBetween(partition, ...most),
      });
    }
    return truth;
  }

  #counts(): Counts {
    return { ends: this.producer.ends(), commits: this.reading.consumer.commits() };
  }
}

interface Reading {
  consumer: CountingConsumer;
  /** Milliseconds since the epoch. */
  since: number;
}

/** Of each partition: where it ends, and what the group has committed. */
interface Counts {
  ends: Range[];
  commits: Range[];
}

function both(a: Range, b: Range): Range {
  return { low: Math.min(a.low, b.low), high: Math.max(a.high, b.high) };
}
