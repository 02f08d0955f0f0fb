/** Percentiles from buckets with the label `le`, computed as Prometheus does (`promql/quantile.go`). */

export interface Bucket {
  readonly upperBound: number;
  readonly count: number;
}

/** Differences that are this small a share of a bucket's count come from adding floating-point numbers. */
const SMALL_SHARE = 1e-12;

/** The value below which the share `q` of the observations lies. NaN where nothing was observed or +Inf is missing. */
export function bucketQuantile(q: number, unsorted: readonly Bucket[]): number {
  if (Number.isNaN(q)) return Number.NaN;
  if (q < 0) return Number.NEGATIVE_INFINITY;
  if (q > 1) return Number.POSITIVE_INFINITY;
  const buckets = monotonic(merged(unsorted));
  const last = buckets.length - 1;
  const observations = buckets[last]?.count ?? 0;
  if (buckets[last]?.upperBound !== Number.POSITIVE_INFINITY) return Number.NaN;
  if (buckets.length < 2 || observations === 0 || Number.isNaN(observations)) return Number.NaN;
  const rank = q * observations;
  const index = buckets.findIndex(({ count }) => count >= rank);
  const end = buckets[index];
  const lower = buckets[index - 1];
  if (end === undefined || index === last) return buckets[last - 1]?.upperBound ?? Number.NaN;
  if (lower === undefined && end.upperBound <= 0) return end.upperBound;
  const begin = lower?.upperBound ?? 0;
  const below = lower?.count ?? 0;
  return begin + (end.upperBound - begin) * ((rank - below) / (end.count - below));
}

/** In order of their bounds, equal bounds added. */
function merged(buckets: readonly Bucket[]): Bucket[] {
  const counts = new Map<number, number>();
  for (const { upperBound, count } of buckets) {
    counts.set(upperBound, (counts.get(upperBound) ?? 0) + count);
  }
  return [...counts]
    .map(([upperBound, count]) => ({ upperBound, count }))
    .sort((a, b) => (a.upperBound < b.upperBound ? -1 : 1));
}

/** Counts that never go down: rates of buckets that were read at different times may. */
function monotonic(buckets: readonly Bucket[]): Bucket[] {
  let floor = buckets[0]?.count ?? 0;
  return buckets.map(({ upperBound, count }, index) => {
    const isSame = Math.abs(count - floor) <= SMALL_SHARE * Math.abs(count + floor);
    if (index > 0 && !isSame && count > floor) floor = count;
    return { upperBound, count: floor };
  });
}
