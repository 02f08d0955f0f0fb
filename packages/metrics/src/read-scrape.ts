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
const PRODUCE_HISTOGRAM = { name: "millrace_request_seconds_bucket", api: "produce" };
/**
 * What a fetch takes without the time that it waits for data on purpose (`fetch.max.wait.ms`): a
 * long poll on an idle topic is not slow.
 */
const FETCH_HISTOGRAM = { name: "millrace_request_service_seconds_bucket", api: "fetch" };

/** Picks what the product stores out of everything a broker exposes. Never throws. */
export function readScrape(from: ScrapeSource, samples: readonly ScrapedSample[]): BrokerReading {
  const source = { ...from, afterGap: from.afterGap ?? false };
  const bytesIn = byTopic(samples, "millrace_topic_bytes_in_total");
  const bytesOut = byTopic(samples, "millrace_topic_bytes_out_total");
  const recordsIn = byTopic(samples, "millrace_topic_records_in_total");
  const names = new Set([...bytesIn.keys(), ...bytesOut.keys(), ...recordsIn.keys()]);
  const connections = samples.filter((sample) => sample.name === "millrace_connections");
  return {
    broker: {
      ...source,
      bytesIn: sum(bytesIn.values()),
      bytesOut: sum(bytesOut.values()),
      recordsIn: sum(recordsIn.values()),
      produceBuckets: buckets(samples, PRODUCE_HISTOGRAM),
      fetchBuckets: buckets(samples, FETCH_HISTOGRAM),
      bucketBoundsUs: LATENCY_BOUNDS_US,
      connections: Number(sum(connections.map((sample) => wholeNumber(sample.value)))),
      cacheHits: total(samples, "millrace_block_cache_hits_total"),
      cacheMisses: total(samples, "millrace_block_cache_misses_total"),
      cacheFetchedBytes: total(samples, "millrace_block_cache_fetched_bytes_total"),
      cacheDeliveredBytes: total(samples, "millrace_block_cache_delivered_bytes_total"),
      // A histogram in seconds per direction and tier; its sum is the time waited.
      networkWaitUs: total(samples, "millrace_network_wait_seconds_sum", 1e6),
      tierBytes: byTier(samples, "millrace_network_bytes_total"),
      tierWaitUs: byTier(samples, "millrace_network_wait_seconds_sum", 1e6),
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

/** The value of a counter over all its labels, in units of which `scale` make one of the broker's. */
function total(samples: readonly ScrapedSample[], name: string, scale = 1): bigint {
  const values = samples.filter((sample) => sample.name === name);
  return sum(values.map((sample) => wholeNumber(sample.value * scale)));
}

/** As `total`, per tier of `NETWORK_TIERS`. */
function byTier(samples: readonly ScrapedSample[], name: string, scale = 1): bigint[] {
  return NETWORK_TIERS.map((tier) => {
    const ofTier = samples.filter(({ labels }) => labels.tier === tier);
    return total(ofTier, name, scale);
  });
}

function byTopic(samples: readonly ScrapedSample[], name: string): Map<string, bigint> {
  const values = new Map<string, bigint>();
  for (const sample of samples) {
    const { topic } = sample.labels;
    if (sample.name !== name || topic === undefined || topic.startsWith("__")) continue;
    values.set(topic, (values.get(topic) ?? 0n) + wholeNumber(sample.value));
  }
  return values;
}

/**
 * Cumulative counts per bound of `LATENCY_BOUNDS_US`, then +Inf, added over whatever other labels
 * the broker uses (versions, errors).
 */
function buckets(
  samples: readonly ScrapedSample[],
  histogram: { readonly name: string; readonly api: string },
): bigint[] {
  const countByBoundUs = new Map<number, bigint>();
  for (const { name, labels, value } of samples) {
    if (name !== histogram.name || labels.api?.toLowerCase() !== histogram.api) continue;
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
