import {
  type ClusterId,
  type LagSample,
  METRIC_NAMES,
  METRIC_UNITS,
  type MetricName,
  type MetricScrape,
  type MetricSeries,
  NETWORK_TIERS,
  type NetworkTier,
  resolutionFor,
  type TopicScrape,
} from "@millrace/domain";
import { addCounts, quantile } from "./histogram.ts";
import {
  COUNTERS,
  type Growth,
  growthOf,
  isSameBounds,
  type Segment,
  segmentsOf,
} from "./segment.ts";

export interface MetricsQuery {
  readonly clusterId: ClusterId;
  readonly from: Date;
  readonly to: Date;
  /** Distance of the points, in seconds, whole. */
  readonly stepSeconds: number;
  /** One of these narrows the answer to the series of that broker, topic or group. */
  readonly brokerId?: number | undefined;
  readonly topic?: string | undefined;
  readonly groupId?: string | undefined;
}

/** A stretch of time, begin included, end excluded. */
export interface TimeRange {
  readonly from: Date;
  readonly to: Date;
}

/** Where readings come from. Lists are in order of time within each broker or group. */
export interface MetricsReadings {
  /**
   * Readings of all brokers, or of one; the first one of each stretch of `stepSeconds` is enough,
   * because counters are cumulative, if those around restarts and gaps are there too.
   */
  scrapes(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    brokerId?: number,
  ): Promise<readonly MetricScrape[]>;
  /** As `scrapes`, of all topics or of one. */
  topicScrapes(
    clusterId: ClusterId,
    topic: string | undefined,
    range: TimeRange,
    stepSeconds: number,
  ): Promise<readonly TopicScrape[]>;
  /** Lag of the groups that are read, and of those that stopped and are behind; the last reading of each stretch of `stepSeconds` is enough. */
  lag(
    clusterId: ClusterId,
    range: TimeRange,
    stepSeconds: number,
    groupId?: string,
  ): Promise<readonly LagSample[]>;
}

/** A gauge that was last read longer ago than this is not known any more: two readings and some time for a third. */
const GAUGE_MS_MAX = 25_000;

/**
 * Every series of `METRIC_NAMES` or, where the query is about one broker, topic or group, those that it has. The point at `t` describes the time (t − step, t], with `t` a
 * multiple of the step, so that two queries that overlap agree. Only whole intervals within
 * [from, to] appear; an interval without measurement is `null`.
 */
export async function queryMetrics(
  readings: MetricsReadings,
  query: MetricsQuery,
): Promise<MetricSeries[]> {
  const stepMs = query.stepSeconds * 1_000;
  const times = alignedTimes(query.from.getTime(), query.to.getTime(), stepMs);
  const { scrapes, lagSamples } = await readingsFor(readings, query);
  const values: Partial<Record<MetricName, (number | null)[]>> = {
    ...(scrapes && counterValues(intervalsOf(scrapes, times, stepMs))),
    ...(scrapes && { connections: gaugeValues(connectionGauges(scrapes), times, stepMs) }),
    ...(lagSamples && { consumer_lag: lagValues(lagSamples, query, times) }),
  };
  return METRIC_NAMES.flatMap((name) => {
    const ofName = values[name];
    if (ofName === undefined || (query.topic !== undefined && !isOfTopic(name))) return [];
    const points = times.map((timeMs, index) => [timeMs, rounded(ofName[index])] as const);
    return [{ name, unit: METRIC_UNITS[name], points }];
  });
}

/**
 * To six digits after the point, or two of a large number: finer than anybody measures. The other digits are noise that would
 * make most of a chart's answer, and they do not compress.
 */
function rounded(value: number | null | undefined): number | null {
  if (value === null || value === undefined) return null;
  const scale = Math.abs(value) < 1_000 ? 1e6 : 100;
  return Math.round(value * scale) / scale;
}

const TOPIC_METRICS: readonly MetricName[] = ["bytes_in_rate", "bytes_out_rate", "records_in_rate"];

function isOfTopic(name: MetricName): boolean {
  return TOPIC_METRICS.includes(name);
}

/** What the query is about; undefined where that kind of reading has no part in it. */
async function readingsFor(readings: MetricsReadings, query: MetricsQuery) {
  const { clusterId, stepSeconds, brokerId, topic, groupId } = query;
  // A reading before the first interval, though one is missed, and one after the last complete the outermost segments.
  const edgeMs = 3 * Math.max(10, resolutionFor(stepSeconds)) * 1_000;
  const stepMs = stepSeconds * 1_000;
  const range = {
    from: new Date(query.from.getTime() - Math.max(edgeMs, 2 * stepMs)),
    to: new Date(query.to.getTime() + stepMs),
  };
  if (topic !== undefined) {
    const ofTopic = await readings.topicScrapes(clusterId, topic, range, stepSeconds);
    return { scrapes: ofTopic.map(asScrape), lagSamples: undefined };
  }
  const [scrapes, lagSamples] = await Promise.all([
    groupId === undefined ? readings.scrapes(clusterId, range, stepSeconds, brokerId) : undefined,
    brokerId === undefined ? readings.lag(clusterId, range, stepSeconds, groupId) : undefined,
  ]);
  return { scrapes, lagSamples };
}

/** A topic's reading as that of a broker with this topic only. Its counters shrink when the broker restarts. */
function asScrape({ topic: _, ...reading }: TopicScrape): MetricScrape {
  return {
    ...reading,
    produceBuckets: [reading.bytesIn],
    fetchBuckets: [reading.bytesOut],
    bucketBoundsUs: [],
    connections: 0,
    cacheHits: 0n,
    cacheMisses: 0n,
    cacheFetchedBytes: 0n,
    cacheDeliveredBytes: 0n,
    networkWaitUs: 0n,
    tierBytes: [],
    tierWaitUs: [],
  };
}

/** Ends of the whole intervals within [fromMs, toMs]. */
export function alignedTimes(fromMs: number, toMs: number, stepMs: number): number[] {
  const first = Math.ceil(fromMs / stepMs) * stepMs + stepMs;
  const count = Math.max(0, Math.floor((toMs - first) / stepMs) + 1);
  return Array.from({ length: count }, (_, index) => first + index * stepMs);
}

type CounterName = Exclude<MetricName, "consumer_lag" | "connections">;

/** What happened in one interval, over all brokers. */
interface Interval {
  /** Growth of each counter per second. */
  readonly rates: Growth;
  bucketBoundsUs: readonly number[];
  produceBuckets: number[];
  fetchBuckets: number[];
  /** Growth per second and tier; empty where no broker told it. */
  readonly tierBytes: number[];
  readonly tierWaitUs: number[];
}

function counterValues(
  intervals: readonly (Interval | undefined)[],
): Record<CounterName, (number | null)[]> {
  const derived = (of: (rates: Growth) => number | null) =>
    intervals.map((interval) => (interval === undefined ? null : of(interval.rates)));
  const latencyMs = (q: number, pick: (interval: Interval) => readonly number[]) =>
    intervals.map((interval) => {
      if (interval === undefined) return null;
      const microseconds = quantile(q, interval.bucketBoundsUs, pick(interval));
      return microseconds === undefined ? null : microseconds / 1_000;
    });
  const ofTier = (tier: NetworkTier, pick: (interval: Interval) => readonly number[], scale = 1) =>
    intervals.map((interval) => {
      const value = interval && pick(interval)[NETWORK_TIERS.indexOf(tier)];
      return value === undefined ? null : value * scale;
    });
  const rateOf = (tier: NetworkTier) => ofTier(tier, (interval) => interval.tierBytes);
  const waitingOf = (tier: NetworkTier) => ofTier(tier, (interval) => interval.tierWaitUs, 1e-6);
  return {
    bytes_in_rate: derived((rates) => rates.bytesIn),
    bytes_out_rate: derived((rates) => rates.bytesOut),
    records_in_rate: derived((rates) => rates.recordsIn),
    cache_hit_ratio: derived(({ cacheHits, cacheMisses }) =>
      ratio(cacheHits, cacheHits + cacheMisses),
    ),
    cache_fetched_per_delivered: derived((rates) =>
      ratio(rates.cacheFetchedBytes, rates.cacheDeliveredBytes),
    ),
    catch_up_read_rate: derived((rates) => rates.cacheDeliveredBytes),
    // Time waited per time passed is the mean number of those who wait (Little's law).
    network_waiting: derived((rates) => rates.networkWaitUs / 1e6),
    network_rate_wal_upload: rateOf("wal_upload"),
    network_rate_tail_read: rateOf("tail_read"),
    network_rate_catch_up_miss: rateOf("catch_up_miss"),
    network_rate_prefetch: rateOf("prefetch"),
    network_rate_compaction: rateOf("compaction"),
    network_waiting_tail_read: waitingOf("tail_read"),
    network_waiting_catch_up_miss: waitingOf("catch_up_miss"),
    network_waiting_prefetch: waitingOf("prefetch"),
    network_waiting_compaction: waitingOf("compaction"),
    produce_latency_p50: latencyMs(0.5, (interval) => interval.produceBuckets),
    produce_latency_p99: latencyMs(0.99, (interval) => interval.produceBuckets),
    produce_latency_p999: latencyMs(0.999, (interval) => interval.produceBuckets),
    fetch_latency_p50: latencyMs(0.5, (interval) => interval.fetchBuckets),
    fetch_latency_p99: latencyMs(0.99, (interval) => interval.fetchBuckets),
    fetch_latency_p999: latencyMs(0.999, (interval) => interval.fetchBuckets),
  };
}

/** Of nothing there is no share. */
function ratio(part: number, whole: number): number | null {
  return whole > 0 ? part / whole : null;
}

function intervalsOf(
  scrapes: readonly MetricScrape[],
  times: readonly number[],
  stepMs: number,
): (Interval | undefined)[] {
  const intervals: (Interval | undefined)[] = times.map(() => undefined);
  for (const ofBroker of groupBy(scrapes, (scrape) => scrape.brokerId).values()) {
    const segments = segmentsOf(ofBroker);
    let first = 0;
    for (const [index, endMs] of times.entries()) {
      const startMs = endMs - stepMs;
      while ((segments[first]?.toMs ?? Number.POSITIVE_INFINITY) <= startMs) first += 1;
      const inside: Segment[] = [];
      for (let at = first; (segments[at]?.fromMs ?? endMs) < endMs; at += 1) {
        const segment = segments[at];
        if (segment) inside.push(segment);
      }
      intervals[index] = withSegments(intervals[index], inside, startMs, endMs);
    }
  }
  return intervals;
}

/**
 * Adds one broker's segments to an interval. Its rates are over the time that was measured, however
 * short: they are the averages of whole segments, not of the part that lies inside.
 */
function withSegments(
  before: Interval | undefined,
  segments: readonly Segment[],
  startMs: number,
  endMs: number,
): Interval | undefined {
  const overlaps = segments.map(
    (segment) => Math.min(endMs, segment.toMs) - Math.max(startMs, segment.fromMs),
  );
  const coveredMs = overlaps.reduce((sum, overlap) => sum + overlap, 0);
  if (coveredMs <= 0) return before;
  const interval = before ?? emptyInterval(segments.at(-1)?.bucketBoundsUs ?? []);
  const seconds = coveredMs / 1_000;
  for (const [index, segment] of segments.entries()) {
    const share = (overlaps[index] ?? 0) / (segment.toMs - segment.fromMs);
    for (const counter of COUNTERS) {
      interval.rates[counter] += (segment.growth[counter] * share) / seconds;
    }
    if (segment.tiers) {
      addCounts(interval.tierBytes, segment.tiers.bytes, share / seconds);
      addCounts(interval.tierWaitUs, segment.tiers.waitUs, share / seconds);
    }
    // Buckets of another layout, from before an upgrade, cannot be added; the newest layout wins.
    if (!isSameBounds(segment.bucketBoundsUs, interval.bucketBoundsUs)) continue;
    addCounts(interval.produceBuckets, segment.produceBuckets, share);
    addCounts(interval.fetchBuckets, segment.fetchBuckets, share);
  }
  return interval;
}

function emptyInterval(bucketBoundsUs: readonly number[]): Interval {
  return {
    rates: growthOf(() => 0),
    bucketBoundsUs,
    produceBuckets: bucketBoundsUs.map(() => 0).concat(0),
    fetchBuckets: bucketBoundsUs.map(() => 0).concat(0),
    tierBytes: [],
    tierWaitUs: [],
  };
}

/** Readings of one gauge, in order of time. */
type Gauge = readonly { readonly atMs: number; readonly value: number }[];

function lagGauges(samples: readonly LagSample[]): Gauge[] {
  const byGroup = groupBy(samples, (sample) => sample.groupId);
  return [...byGroup.values()].map((ofGroup) =>
    ofGroup.map((sample) => ({ atMs: sample.at.getTime(), value: Number(sample.lag) })),
  );
}

/** Of one group whether it is idle or not, of a cluster that of active groups. */
function lagValues(
  samples: readonly LagSample[],
  { groupId, stepSeconds }: MetricsQuery,
  times: readonly number[],
): (number | null)[] {
  const shown = samples.filter(({ idle }) => groupId !== undefined || !idle);
  return gaugeValues(lagGauges(shown), times, stepSeconds * 1_000);
}

function connectionGauges(scrapes: readonly MetricScrape[]): Gauge[] {
  const byBroker = groupBy(scrapes, (scrape) => scrape.brokerId);
  return [...byBroker.values()].map((ofBroker) =>
    ofBroker.map((scrape) => ({ atMs: scrape.at.getTime(), value: scrape.connections })),
  );
}

/** The sum of what each gauge last read at the end of each interval, `null` where none is known. */
function gaugeValues(
  gauges: readonly Gauge[],
  times: readonly number[],
  stepMs: number,
): (number | null)[] {
  const values: (number | null)[] = times.map(() => null);
  // A coarse query gets coarse readings, the last of each stretch.
  const staleMs = Math.max(GAUGE_MS_MAX, stepMs);
  for (const gauge of gauges) {
    let next = 0;
    for (const [index, endMs] of times.entries()) {
      while ((gauge[next]?.atMs ?? Number.POSITIVE_INFINITY) <= endMs) next += 1;
      const last = gauge[next - 1];
      if (last === undefined || endMs - last.atMs > staleMs) continue;
      values[index] = (values[index] ?? 0) + last.value;
    }
  }
  return values;
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
