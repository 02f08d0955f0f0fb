/**
 * Percentiles from merged histogram buckets. Percentiles themselves can be neither averaged nor
 * added; bucket counts can be added over brokers and over time, and a percentile is read last.
 *
 * Counts here are cumulative per upper bound, as Prometheus writes them, with +Inf last: entry `i`
 * counts the observations up to bound `i`. They may be fractions, where an increase was divided
 * over time.
 */

/** Adds `part × factor` to `total`, in place. Both have the same buckets. */
export function addCounts(total: number[], part: readonly number[], factor: number): void {
  for (const [index, count] of part.entries()) {
    total[index] = (total[index] ?? 0) + count * factor;
  }
}

/**
 * The value below which the share `q` (0…1) of the observations lies, in the unit of `bounds`,
 * interpolated within its bucket. Observations beyond the last bound count as the last bound: the
 * true value is not known. `undefined` where nothing was observed.
 */
export function quantile(
  q: number,
  bounds: readonly number[],
  counts: readonly number[],
): number | undefined {
  const total = counts[bounds.length] ?? 0;
  if (!(total > 0)) return undefined;
  const rank = Math.min(1, Math.max(0, q)) * total;
  let below = 0;
  let lower = 0;
  for (const [index, upper] of bounds.entries()) {
    const upTo = Math.max(below, counts[index] ?? 0);
    if (upTo >= rank && upTo > below) {
      return lower + (upper - lower) * ((rank - below) / (upTo - below));
    }
    below = upTo;
    lower = upper;
  }
  return lower;
}
