import type { MetricReadings } from "@millrace/db";
import type { ClusterId, MetricResolution } from "@millrace/domain";
import { readScrape } from "@millrace/metrics";

/** Produces and fetches per second of one broker, on average. */
const REQUESTS_PER_SECOND = 100;
const BYTES_PER_REQUEST = 10_000;
const RECORDS_PER_REQUEST = 100;
/** Latencies lie around this bucket, as those of a broker at work. */
const USUAL_BUCKET = 5;

interface Counters {
  bytesIn: bigint;
  bytesOut: bigint;
  recordsIn: bigint;
}

/** Counters of a cluster whose traffic varies at random, so that its readings compress no better than real ones. */
export class SimulatedCluster {
  readonly #id: ClusterId;
  readonly #topics: Counters[][];
  readonly #buckets: { produce: bigint[]; fetch: bigint[] }[];
  #before: Date | undefined;

  constructor(id: ClusterId, brokers: number, topics: number) {
    this.#id = id;
    const counters = () => ({ bytesIn: 0n, bytesOut: 0n, recordsIn: 0n });
    this.#topics = listOf(brokers, () => listOf(topics, counters));
    const { broker } = readScrape({ clusterId: id, brokerId: 0, at: new Date() }, []);
    const none = broker.produceBuckets;
    this.#buckets = listOf(brokers, () => ({ produce: [...none], fetch: [...none] }));
  }

  /** What all its brokers and topics have counted by this time, and the lag of one group. */
  read(at: Date, resolution: MetricResolution): MetricReadings {
    const seconds = this.#before ? (at.getTime() - this.#before.getTime()) / 1_000 : 0;
    this.#before = at;
    const origin = { clusterId: this.#id, at, afterGap: false };
    const topics = this.#topics.flatMap((ofBroker, brokerId) =>
      ofBroker.map((topic, index) => {
        grow(topic, (seconds * REQUESTS_PER_SECOND) / ofBroker.length);
        return { ...origin, brokerId, topic: `topic-${index}`, ...topic };
      }),
    );
    const brokers = this.#buckets.map((buckets, brokerId) => {
      for (const each of [buckets.produce, buckets.fetch]) {
        observe(each, seconds * REQUESTS_PER_SECOND);
      }
      const ofBroker = topics.filter((topic) => topic.brokerId === brokerId);
      const total = (name: keyof Counters) => ofBroker.reduce((sum, each) => sum + each[name], 0n);
      const { broker } = readScrape({ ...origin, brokerId }, []);
      return {
        ...broker,
        ...{
          bytesIn: total("bytesIn"),
          bytesOut: total("bytesOut"),
          recordsIn: total("recordsIn"),
        },
        ...{ produceBuckets: [...buckets.produce], fetchBuckets: [...buckets.fetch] },
        connections: 100 + Math.floor(Math.random() * 10),
        ...{
          cacheHits: total("bytesOut") / 1_000_000n,
          cacheMisses: total("bytesOut") / 9_000_000n,
        },
        ...{
          cacheFetchedBytes: total("bytesOut") / 9n,
          cacheDeliveredBytes: total("bytesOut") / 8n,
        },
        networkWaitUs: total("bytesIn") / 77n,
        tierBytes: [5n, 6n, 7n, 8n, 9n].map((share) => total("bytesOut") / share),
        tierWaitUs: [0n, 1n, 2n, 3n, 4n].map((share) => (total("bytesIn") * share) / 777n),
      };
    });
    const lag = [{ clusterId: this.#id, groupId: "readers", at, lag: whole(5_000), idle: false }];
    return { resolution, brokers, topics, lag };
  }
}

function grow(topic: Counters, requests: number): void {
  topic.bytesIn += whole(requests * BYTES_PER_REQUEST);
  topic.bytesOut += whole(requests * BYTES_PER_REQUEST * 2);
  topic.recordsIn += whole(requests * RECORDS_PER_REQUEST);
}

/** Adds so many observations to cumulative buckets. */
function observe(buckets: bigint[], requests: number): void {
  let below = 0n;
  for (const [index, count] of buckets.entries()) {
    const share = Math.exp(-((index - USUAL_BUCKET) ** 2) / 6) / 4.3;
    below += whole(requests * share);
    buckets[index] = count + below;
  }
}

/** A random whole number around this one. */
function whole(mean: number): bigint {
  return BigInt(Math.round(mean * (0.5 + Math.random())));
}

function listOf<T>(length: number, make: () => T): T[] {
  return Array.from({ length }, make);
}
