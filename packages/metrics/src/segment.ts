/**
 * The stretch between two readings of one broker's counters, with what each counter grew by.
 *
 * Readings do not fall on the borders of a query's intervals; growth is therefore divided evenly
 * over the stretch it was measured on, and each interval takes its share. No increase is lost or
 * counted twice, whatever the interval.
 */
import type { MetricScrape } from "@millrace/domain";

/** The counters that are one number each. */
export const COUNTERS = [
  "bytesIn",
  "bytesOut",
  "recordsIn",
  "cacheHits",
  "cacheMisses",
  "cacheFetchedBytes",
  "cacheDeliveredBytes",
  "networkWaitUs",
] as const satisfies (keyof MetricScrape)[];

/** An amount for every counter. */
export type Growth = Record<(typeof COUNTERS)[number], number>;

export function growthOf(amountOf: (counter: keyof Growth) => number): Growth {
  return Object.fromEntries(COUNTERS.map((counter) => [counter, amountOf(counter)])) as Growth;
}

export interface Segment {
  /** Milliseconds since the epoch; `fromMs` < `toMs`. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly growth: Readonly<Growth>;
  readonly produceBuckets: readonly number[];
  readonly fetchBuckets: readonly number[];
  readonly bucketBoundsUs: readonly number[];
  /** Per tier; undefined where one of the readings lacks them. */
  readonly tiers:
    | { readonly bytes: readonly number[]; readonly waitUs: readonly number[] }
    | undefined;
}

/** The readings are one broker's, in order of their time. Of a gap between two nothing is known. */
export function segmentsOf(readings: readonly MetricScrape[]): Segment[] {
  return readings.slice(1).flatMap((next, index) => {
    const before = readings[index];
    return before === undefined ? [] : (segmentBetween(before, next) ?? []);
  });
}

function segmentBetween(before: MetricScrape, next: MetricScrape): Segment | undefined {
  const fromMs = before.at.getTime();
  const toMs = next.at.getTime();
  if (toMs <= fromMs || next.afterGap) return undefined;
  const base = hasRestarted(before, next) ? undefined : before;
  return {
    fromMs,
    toMs,
    growth: growthOf((counter) => increase(base?.[counter], next[counter])),
    produceBuckets: increases(base?.produceBuckets, next.produceBuckets),
    fetchBuckets: increases(base?.fetchBuckets, next.fetchBuckets),
    bucketBoundsUs: next.bucketBoundsUs,
    tiers: tierIncreases(before, next, base),
  };
}

function tierIncreases(before: MetricScrape, next: MetricScrape, base: MetricScrape | undefined) {
  if (before.tierBytes.length === 0 || next.tierBytes.length === 0) return undefined;
  return {
    bytes: increases(base?.tierBytes, next.tierBytes),
    waitUs: increases(base?.tierWaitUs, next.tierWaitUs),
  };
}

/**
 * Whether the broker's counters were reset between two readings. Request counts only ever grow in
 * one process, so they tell; sums over topics also shrink when a topic is deleted.
 */
export function hasRestarted(before: MetricScrape, next: MetricScrape): boolean {
  return (
    !isSameBounds(before.bucketBoundsUs, next.bucketBoundsUs) ||
    hasShrunk(before.produceBuckets, next.produceBuckets) ||
    hasShrunk(before.fetchBuckets, next.fetchBuckets)
  );
}

function hasShrunk(before: readonly bigint[], next: readonly bigint[]): boolean {
  return before.some((count, index) => count > (next[index] ?? 0n));
}

export function isSameBounds(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((bound, index) => bound === b[index]);
}

function increase(before: bigint | undefined, next: bigint): number {
  const grown = next - (before ?? 0n);
  return grown > 0n ? Number(grown) : 0;
}

function increases(before: readonly bigint[] | undefined, next: readonly bigint[]): number[] {
  return next.map((count, index) => increase(before?.[index], count));
}
