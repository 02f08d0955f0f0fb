import type { ClusterId } from "./id.ts";

/** Series that a cluster's metrics answer holds. */
export const METRIC_NAMES = [
  "bytes_in_rate",
  "bytes_out_rate",
  "records_in_rate",
  "produce_latency_p50",
  "produce_latency_p99",
  "fetch_latency_p50",
  "fetch_latency_p99",
  "consumer_lag",
  "connections",
] as const;
export type MetricName = (typeof METRIC_NAMES)[number];

export type MetricUnit = "bytes_per_second" | "records_per_second" | "ms" | "records" | "count";

export const METRIC_UNITS: Record<MetricName, MetricUnit> = {
  bytes_in_rate: "bytes_per_second",
  bytes_out_rate: "bytes_per_second",
  records_in_rate: "records_per_second",
  produce_latency_p50: "ms",
  produce_latency_p99: "ms",
  fetch_latency_p50: "ms",
  fetch_latency_p99: "ms",
  consumer_lag: "records",
  connections: "count",
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
  readonly bytesIn: bigint;
  readonly bytesOut: bigint;
  readonly recordsIn: bigint;
  /** Cumulative count per histogram bucket (`le`), last entry is +Inf. */
  readonly produceBuckets: readonly bigint[];
  readonly fetchBuckets: readonly bigint[];
  /** Upper bounds of the buckets in microseconds, without +Inf. */
  readonly bucketBoundsUs: readonly number[];
  readonly connections: number;
}

export interface LagSample {
  readonly clusterId: ClusterId;
  readonly groupId: string;
  readonly at: Date;
  /** Records, summed over the group's partitions. */
  readonly lag: bigint;
}

/** Cumulative counters of one topic at one reading. */
export interface TopicScrape {
  readonly clusterId: ClusterId;
  readonly brokerId: number;
  readonly topic: string;
  readonly at: Date;
  readonly bytesIn: bigint;
  readonly bytesOut: bigint;
  readonly recordsIn: bigint;
}

/** A query may ask for at most this many points per series: more than a screen has pixels. */
export const METRIC_POINTS_MAX = 2_000;
/** Finest step: a broker is read every two seconds. */
export const METRIC_STEP_SECONDS_MIN = 2;
