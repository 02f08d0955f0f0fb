import {
  type ClusterId,
  type MetricScrape,
  NETWORK_TIERS,
  type TopicScrape,
} from "@millrace/domain";
import { LATENCY_BOUNDS_US } from "./latency-bounds.ts";

/** One sample of a broker's Prometheus text. */
export interface ScrapedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ScrapeSource {
  readonly clusterId: ClusterId;
  readonly brokerId: number;
  readonly at: Date;
  /** Nothing is known of the time before; false by default. */
  readonly afterGap?: boolean;
}

export interface BrokerReading {
  readonly broker: MetricScrape;
  /** Topics of users; what the product keeps for itself (`__…`) is not their traffic. */
  readonly topics: readonly TopicScrape[];
}

/** What a produce takes as its client sees it: from the request's arrival to the answer's leaving. */
const PRODUCE_HISTOGRAM = { name: "millrace_request_seconds_bucket", api: "Produce" };
/**
 * What a fetch takes without the time that it waits for data on purpose (`fetch.max.wait.ms`): a
 * long poll on an idle topic is not slow.
 */
const FETCH_HISTOGRAM = { name: "millrace_request_service_seconds_bucket", api: "Fetch" };

const TOPIC_BYTES_IN = "millrace_topic_bytes_in_total";
const TOPIC_BYTES_OUT = "millrace_topic_bytes_out_total";
const TOPIC_RECORDS_IN = "millrace_topic_records_in_total";
const CONNECTIONS = "millrace_connections";
const CACHE_HITS = "millrace_block_cache_hits_total";
const CACHE_MISSES = "millrace_block_cache_misses_total";
const CACHE_FETCHED_BYTES = "millrace_block_cache_fetched_bytes_total";
const CACHE_DELIVERED_BYTES = "millrace_block_cache_delivered_bytes_total";
const NETWORK_BYTES = "millrace_network_bytes_total";
/** Of a histogram in seconds per direction and tier: the time waited. */
const NETWORK_WAIT_SECONDS = "millrace_network_wait_seconds_sum";

const COUNTERS: ReadonlySet<string> = new Set([
  ...[TOPIC_BYTES_IN, TOPIC_BYTES_OUT, TOPIC_RECORDS_IN, CONNECTIONS],
  ...[CACHE_HITS, CACHE_MISSES, CACHE_FETCHED_BYTES, CACHE_DELIVERED_BYTES],
  ...[NETWORK_BYTES, NETWORK_WAIT_SECONDS],
]);
/** Label values as brokers write them, for a look at a line that is not parsed yet. */
const HISTOGRAM_LABELS: ReadonlyMap<string, string> = new Map(
  [PRODUCE_HISTOGRAM, FETCH_HISTOGRAM].map(({ name, api }) => [name, `"${api}"`]),
);

/**
 * Whether `readScrape` may use the sample of a line. A broker exposes some 3,500 samples, of which a tenth is stored:
 * parsing them all costs 6 ms per reading.
 */
export function isScraped(name: string, line: string): boolean {
  const label = HISTOGRAM_LABELS.get(name);
  return label === undefined ? COUNTERS.has(name) : line.includes(label);
}

/** Picks what the product stores out of everything a broker exposes. Never throws. */
export function readScrape(from: ScrapeSource, all: readonly ScrapedSample[]): BrokerReading {
  const source = { ...from, afterGap: from.afterGap ?? false };
  const samples = byName(all);
  const bytesIn = byTopic(samples, TOPIC_BYTES_IN);
  const bytesOut = byTopic(samples, TOPIC_BYTES_OUT);
  const recordsIn = byTopic(samples, TOPIC_RECORDS_IN);
  const names = new Set([...bytesIn.keys(), ...bytesOut.keys(), ...recordsIn.keys()]);
  return {
    broker: {
      ...source,
      bytesIn: sum(bytesIn.values()),
      bytesOut: sum(bytesOut.values()),
      recordsIn: sum(recordsIn.values()),
      produceBuckets: buckets(samples, PRODUCE_HISTOGRAM),
      fetchBuckets: buckets(samples, FETCH_HISTOGRAM),
      bucketBoundsUs: LATENCY_BOUNDS_US,
      connections: Number(total(samples, CONNECTIONS)),
      cacheHits: total(samples, CACHE_HITS),
      cacheMisses: total(samples, CACHE_MISSES),
      cacheFetchedBytes: total(samples, CACHE_FETCHED_BYTES),
      cacheDeliveredBytes: total(samples, CACHE_DELIVERED_BYTES),
      networkWaitUs: total(samples, NETWORK_WAIT_SECONDS, 1e6),
      tierBytes: byTier(samples, NETWORK_BYTES),
      tierWaitUs: byTier(samples, NETWORK_WAIT_SECONDS, 1e6),
    },
    topics: [...names].sort().map((topic) => ({
      ...source,
      topic,
      bytesIn: bytesIn.get(topic) ?? 0n,
      bytesOut: bytesOut.get(topic) ?? 0n,
      recordsIn: recordsIn.get(topic) ?? 0n,
    })),
  };
}

type SamplesByName = ReadonlyMap<string, readonly ScrapedSample[]>;

function byName(samples: readonly ScrapedSample[]): SamplesByName {
  const named = new Map<string, ScrapedSample[]>();
  for (const sample of samples) {
    const same = named.get(sample.name);
    if (same) same.push(sample);
    else named.set(sample.name, [sample]);
  }
  return named;
}

/** The value of a counter over all its labels, in units of which `scale` make one of the broker's. */
function total(samples: SamplesByName, name: string, scale = 1): bigint {
  return totalOf(samples.get(name) ?? [], scale);
}

/** As `total`, per tier of `NETWORK_TIERS`. */
function byTier(samples: SamplesByName, name: string, scale = 1): bigint[] {
  const values = samples.get(name) ?? [];
  return NETWORK_TIERS.map((tier) =>
    totalOf(
      values.filter(({ labels }) => labels.tier === tier),
      scale,
    ),
  );
}

function totalOf(samples: readonly ScrapedSample[], scale: number): bigint {
  return sum(samples.map((sample) => wholeNumber(sample.value * scale)));
}

function byTopic(samples: SamplesByName, name: string): Map<string, bigint> {
  const values = new Map<string, bigint>();
  for (const sample of samples.get(name) ?? []) {
    const { topic } = sample.labels;
    if (topic === undefined || topic.startsWith("__")) continue;
    values.set(topic, (values.get(topic) ?? 0n) + wholeNumber(sample.value));
  }
  return values;
}

/**
 * Cumulative counts per bound of `LATENCY_BOUNDS_US`, then +Inf, added over whatever other labels
 * the broker uses (versions, errors).
 */
function buckets(
  samples: SamplesByName,
  histogram: { readonly name: string; readonly api: string },
): bigint[] {
  const countByBoundUs = new Map<number, bigint>();
  for (const { labels, value } of samples.get(histogram.name) ?? []) {
    if (labels.api !== histogram.api) continue;
    const bound = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le) * 1e6;
    const boundUs = Number.isFinite(bound) ? Math.round(bound) : bound;
    countByBoundUs.set(boundUs, (countByBoundUs.get(boundUs) ?? 0n) + wholeNumber(value));
  }
  let floor = 0n;
  return [...LATENCY_BOUNDS_US, Number.POSITIVE_INFINITY].map((boundUs) => {
    // A broker that lacks a bound counts what is below it in the next one.
    const count = countByBoundUs.get(boundUs) ?? floor;
    if (count > floor) floor = count;
    return floor;
  });
}

/** Counters are whole and not negative; anything else in the text counts as nothing. */
function wholeNumber(value: number): bigint {
  return Number.isFinite(value) && value > 0 ? BigInt(Math.round(value)) : 0n;
}

function sum(values: Iterable<bigint>): bigint {
  let total = 0n;
  for (const value of values) total += value;
  return total;
}
