/** What the codec stores of each kind of reading. */
import {
  type ClusterId,
  type LagSample,
  type MetricScrape,
  NETWORK_TIERS,
  type TopicScrape,
} from "@millrace/domain";
import type { ReadingBlock, ReadingLayout, StoredReading } from "./metric-codec.ts";

/** Of a broker, of its topics, of the cluster's consumer groups. */
export type ReadingKind = "broker" | "topics" | "groups";

const BROKER_COUNTERS = [
  "bytesIn",
  "bytesOut",
  "recordsIn",
  "cacheHits",
  "cacheMisses",
  "cacheFetchedBytes",
  "cacheDeliveredBytes",
  "networkWaitUs",
] as const satisfies (keyof MetricScrape)[];
const TIER_BYTES = NETWORK_TIERS.map((tier) => `bytes ${tier}`);
const TIER_WAIT_US = NETWORK_TIERS.map((tier) => `waitUs ${tier}`);
const TOPIC_COUNTERS = [
  "bytesIn",
  "bytesOut",
  "recordsIn",
] as const satisfies (keyof TopicScrape)[];

const withoutBuckets = { boundsUs: [], produce: 0, fetch: 0 };
const TOPIC_LAYOUT: ReadingLayout = { counters: TOPIC_COUNTERS, ...withoutBuckets };
const LAG_LAYOUT: ReadingLayout = { counters: ["lag", "idle"], ...withoutBuckets };

export function storedBroker(scrape: MetricScrape): StoredReading {
  const { brokerId, at, afterGap, produceBuckets, fetchBuckets } = scrape;
  const tierNames = scrape.tierBytes.length > 0 ? [...TIER_BYTES, ...TIER_WAIT_US] : [];
  const layout = {
    counters: [...BROKER_COUNTERS, "connections", ...tierNames],
    boundsUs: scrape.bucketBoundsUs,
    produce: produceBuckets.length,
    fetch: fetchBuckets.length,
  };
  const counters = [...BROKER_COUNTERS.map((name) => scrape[name]), BigInt(scrape.connections)];
  const ofTiers = [...scrape.tierBytes, ...scrape.tierWaitUs];
  const values = [...counters, ...ofTiers, ...produceBuckets, ...fetchBuckets];
  return { source: `${brokerId}`, brokerId, atMs: at.getTime(), afterGap, layout, values };
}

export function brokerOf(clusterId: ClusterId, stored: StoredReading): MetricScrape {
  const { layout, values } = stored;
  const begin = layout.counters.length;
  return {
    ...originOf(clusterId, stored),
    ...amounts(BROKER_COUNTERS, stored),
    connections: Number(amounts(["connections"], stored).connections),
    tierBytes: known(TIER_BYTES, stored),
    tierWaitUs: known(TIER_WAIT_US, stored),
    produceBuckets: values.slice(begin, begin + layout.produce),
    fetchBuckets: values.slice(begin + layout.produce),
    bucketBoundsUs: layout.boundsUs,
  };
}

/** Requests, which only ever grow in one process: less of them means that the broker restarted. */
export function requestsAt({ layout, columns }: ReadingBlock, index: number): number {
  // A histogram's columns are differences: their sum is its last bucket.
  return columns
    .slice(layout.counters.length)
    .reduce<number>((sum, column) => sum + Number(column[index] ?? 0), 0);
}

export function storedTopic(scrape: TopicScrape): StoredReading {
  const { topic, brokerId, at, afterGap } = scrape;
  const values = TOPIC_COUNTERS.map((name) => scrape[name]);
  return { source: topic, brokerId, atMs: at.getTime(), afterGap, layout: TOPIC_LAYOUT, values };
}

export function topicOf(clusterId: ClusterId, stored: StoredReading): TopicScrape {
  const origin = originOf(clusterId, stored);
  return { ...origin, topic: stored.source, ...amounts(TOPIC_COUNTERS, stored) };
}

/** Bytes in and out, which shrink when the broker restarts. */
export function topicBytesAt({ columns }: ReadingBlock, index: number): number {
  return Number(columns[0]?.[index] ?? 0) + Number(columns[1]?.[index] ?? 0);
}

export function storedLag({ groupId, at, lag, idle }: LagSample): StoredReading {
  const origin = { source: groupId, brokerId: 0, atMs: at.getTime(), afterGap: false };
  return { ...origin, layout: LAG_LAYOUT, values: [lag, idle ? 1n : 0n] };
}

/** Readings from before idle groups were stored are of active ones. */
export function lagOf(clusterId: ClusterId, stored: StoredReading): LagSample {
  const { lag, idle } = amounts(["lag", "idle"], stored);
  return { clusterId, groupId: stored.source, at: new Date(stored.atMs), lag, idle: idle > 0n };
}

function originOf(clusterId: ClusterId, { brokerId, atMs, afterGap }: StoredReading) {
  return { clusterId, brokerId, at: new Date(atMs), afterGap };
}

/** Counters by name; one that the broker did not have yet is 0. */
function amounts<Name extends string>(
  names: readonly Name[],
  { layout, values }: StoredReading,
): Record<Name, bigint> {
  const entries = names.map((name) => [name, values[layout.counters.indexOf(name)] ?? 0n]);
  return Object.fromEntries(entries) as Record<Name, bigint>;
}

/** Counters by name, without those that were not read. */
function known(names: readonly string[], { layout, values }: StoredReading): bigint[] {
  return names.flatMap((name) => {
    const index = layout.counters.indexOf(name);
    return index < 0 ? [] : (values[index] ?? 0n);
  });
}
