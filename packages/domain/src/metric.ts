import type { ClusterId } from "./id.ts";

/** Series that a cluster's metrics answer holds. */
export const METRIC_NAMES = [
  "bytes_in_rate",
  "bytes_out_rate",
  "records_in_rate",
  "produce_latency_p50",
  "produce_latency_p99",
  "produce_latency_p999",
  "fetch_latency_p50",
  "fetch_latency_p99",
  "fetch_latency_p999",
  "consumer_lag",
  "connections",
  "cache_hit_ratio",
  "cache_fetched_per_delivered",
  "catch_up_read_rate",
  "network_waiting",
  "network_rate_wal_upload",
  "network_rate_tail_read",
  "network_rate_catch_up_miss",
  "network_rate_prefetch",
  "network_rate_compaction",
  "network_waiting_tail_read",
  "network_waiting_catch_up_miss",
  "network_waiting_prefetch",
  "network_waiting_compaction",
] as const;
export type MetricName = (typeof METRIC_NAMES)[number];

type MetricUnit = "bytes_per_second" | "records_per_second" | "ms" | "records" | "count" | "ratio";

export const METRIC_UNITS: Record<MetricName, MetricUnit> = {
  bytes_in_rate: "bytes_per_second",
  bytes_out_rate: "bytes_per_second",
  records_in_rate: "records_per_second",
  produce_latency_p50: "ms",
  produce_latency_p99: "ms",
  produce_latency_p999: "ms",
  fetch_latency_p50: "ms",
  fetch_latency_p99: "ms",
  fetch_latency_p999: "ms",
  consumer_lag: "records",
  connections: "count",
  /** Of reads that the log cache did not serve, the share that the block cache did: 0 to 1. */
  cache_hit_ratio: "ratio",
  /** Bytes read from the bucket per byte given to readers; 1 is the ideal. */
  cache_fetched_per_delivered: "ratio",
  /** Bytes that readers got out of the block cache. */
  catch_up_read_rate: "bytes_per_second",
  /** How many requests waited for the network at a time, on average, whatever their tier. */
  network_waiting: "count",
  /** Bytes that the tier moved, in both directions. */
  network_rate_wal_upload: "bytes_per_second",
  network_rate_tail_read: "bytes_per_second",
  network_rate_catch_up_miss: "bytes_per_second",
  network_rate_prefetch: "bytes_per_second",
  network_rate_compaction: "bytes_per_second",
  /** As `network_waiting`, of the tier. */
  network_waiting_tail_read: "count",
  network_waiting_catch_up_miss: "count",
  network_waiting_prefetch: "count",
  network_waiting_compaction: "count",
};

/** A point is [milliseconds since the epoch, value]; `null` where nothing was measured. */
export type MetricPoint = readonly [timeMs: number, value: number | null];

export interface MetricSeries {
  readonly name: MetricName;
  readonly unit: MetricUnit;
  readonly points: readonly MetricPoint[];
}

/**
 * One reading of a broker's cumulative counters. Rates and percentiles are differences of two
 * readings; a counter that went down means that the broker restarted.
 */
export interface MetricScrape {
  readonly clusterId: ClusterId;
  readonly brokerId: number;
  readonly at: Date;
  /** Nothing is known of the time before it: the broker or its reader was away. */
  readonly afterGap: boolean;
  readonly bytesIn: bigint;
  readonly bytesOut: bigint;
  readonly recordsIn: bigint;
  /** Cumulative count per histogram bucket (`le`), last entry is +Inf. */
  readonly produceBuckets: readonly bigint[];
  readonly fetchBuckets: readonly bigint[];
  /** Upper bounds of the buckets in microseconds, without +Inf. */
  readonly bucketBoundsUs: readonly number[];
  readonly connections: number;
  /** Reads of the block cache that found their data there, and those that did not. */
  readonly cacheHits: bigint;
  readonly cacheMisses: bigint;
  /** Read from the bucket, and given to readers. */
  readonly cacheFetchedBytes: bigint;
  readonly cacheDeliveredBytes: bigint;
  /** Microseconds that requests have waited for the network, all of them added. */
  readonly networkWaitUs: bigint;
  /** Bytes moved in both directions, per tier of `NETWORK_TIERS`; empty where they were not read. */
  readonly tierBytes: readonly bigint[];
  /** `networkWaitUs` per tier; empty where they were not read. */
  readonly tierWaitUs: readonly bigint[];
}

/** The lag of a group that is read, or of one that stopped and is behind. */
export interface LagSample {
  readonly clusterId: ClusterId;
  readonly groupId: string;
  readonly at: Date;
  /** Nobody reads: it is not part of the cluster's lag. */
  readonly idle: boolean;
  /** Records, summed over the group's partitions. */
  readonly lag: bigint;
}

/** Cumulative counters of one topic at one reading. */
export interface TopicScrape {
  readonly clusterId: ClusterId;
  readonly brokerId: number;
  readonly topic: string;
  readonly at: Date;
  /** As that of the broker's reading. */
  readonly afterGap: boolean;
  readonly bytesIn: bigint;
  readonly bytesOut: bigint;
  readonly recordsIn: bigint;
}

/**
 * Resolutions that readings are stored at, in seconds. Each reading is stored at the coarsest one of which it begins a
 * stretch; a query at a resolution takes the readings of that and of all coarser ones. Counters are cumulative, so
 * rates and percentiles are exact at each of them.
 */
export const METRIC_RESOLUTIONS = [2, 10, 60, 600] as const;
export type MetricResolution = (typeof METRIC_RESOLUTIONS)[number];

/** How long readings of a resolution are kept, in seconds. The database has the same numbers and drops by them. */
export const METRIC_KEEP_SECONDS: Record<MetricResolution, number> = {
  2: 2 * 3_600,
  10: 2 * 86_400,
  60: 15 * 86_400,
  600: 400 * 86_400,
};

/**
 * How much time a chunk of readings covers, in seconds. Readings are first stored one by one, and together once the chunk's
 * time is over. The partitions of the database hold whole chunks.
 */
export const METRIC_CHUNK_SECONDS: Record<MetricResolution, number> = {
  2: 600,
  10: 1_800,
  60: 3_600,
  600: 43_200,
};

/** The coarsest resolution of which a reading at `at` begins a stretch, after a reading at `before`. */
export function resolutionAt(before: Date | undefined, at: Date): MetricResolution {
  const stretchOf = (time: Date, resolution: number) =>
    Math.floor(time.getTime() / (resolution * 1_000));
  const begun = METRIC_RESOLUTIONS.findLast(
    (each) => before === undefined || stretchOf(before, each) !== stretchOf(at, each),
  );
  return begun ?? METRIC_RESOLUTIONS[0];
}

/** The coarsest resolution that has all that points `stepSeconds` apart can show. */
export function resolutionFor(stepSeconds: number): MetricResolution {
  return METRIC_RESOLUTIONS.findLast((each) => each <= stepSeconds) ?? METRIC_RESOLUTIONS[0];
}

/** The finest resolution of which readings of this age are kept. */
export function resolutionKept(ageSeconds: number): MetricResolution {
  return METRIC_RESOLUTIONS.find((each) => ageSeconds <= METRIC_KEEP_SECONDS[each]) ?? 600;
}

/** A query may ask for at most this many points per series: more than a screen has pixels. */
export const METRIC_POINTS_MAX = 2_000;
/** Finest step: a broker is read every two seconds while somebody looks at it. */
export const METRIC_STEP_SECONDS_MIN = 2;
