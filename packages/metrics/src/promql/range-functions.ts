/**
 * Functions of the samples of one series within (begin, end], computed as Prometheus does
 * (`promql/functions.go`). Undefined where there are too few samples.
 */

/** Samples of a series in order of time; those of the window are [from, to). */
export interface RangeWindow {
  readonly timesMs: readonly number[];
  readonly values: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly beginMs: number;
  readonly endMs: number;
}

type RangeFunction = (window: RangeWindow) => number | undefined;

export const RANGE_FUNCTIONS: Readonly<Record<string, RangeFunction>> = {
  rate: (window) => perSecond(window, extrapolated(window, true)),
  increase: (window) => extrapolated(window, true),
  delta: (window) => extrapolated(window, false),
  irate: instantRate,
  deriv: slope,
  avg_over_time: (window) => mean(window),
  sum_over_time: (window) => total(window),
  min_over_time: (window) => extreme(window, (a, b) => a < b),
  max_over_time: (window) => extreme(window, (a, b) => a > b),
  count_over_time: ({ from, to }) => to - from,
  last_over_time: ({ values, to }) => values[to - 1],
};

/** A window without samples has been found before to extend so far beyond its samples at most, in intervals. */
const EXTRAPOLATION_INTERVALS_MAX = 1.1;

/**
 * The growth between the window's first and last sample, extended to the window's ends: the samples are rarely there.
 * A counter that went down was reset; extended backwards it is never negative.
 */
function extrapolated(
  { timesMs, values, from, to, beginMs, endMs }: RangeWindow,
  isCounter: boolean,
): number | undefined {
  if (to - from < 2) return undefined;
  const at = (list: readonly number[], index: number) => list[index] ?? Number.NaN;
  const first = at(values, from);
  let growth = at(values, to - 1) - first;
  if (isCounter) {
    for (let index = from + 1; index < to; index += 1) {
      const before = at(values, index - 1);
      if (at(values, index) < before) growth += before;
    }
  }
  const sampledSeconds = (at(timesMs, to - 1) - at(timesMs, from)) / 1_000;
  const interval = sampledSeconds / (to - from - 1);
  const extended = (seconds: number) =>
    seconds >= interval * EXTRAPOLATION_INTERVALS_MAX ? interval / 2 : seconds;
  let before = extended((at(timesMs, from) - beginMs) / 1_000);
  if (isCounter && growth > 0 && first >= 0) {
    before = Math.min(before, sampledSeconds * (first / growth));
  }
  const after = extended((endMs - at(timesMs, to - 1)) / 1_000);
  return growth * ((sampledSeconds + before + after) / sampledSeconds);
}

function perSecond({ beginMs, endMs }: RangeWindow, growth: number | undefined) {
  return growth === undefined ? undefined : growth / ((endMs - beginMs) / 1_000);
}

function instantRate({ timesMs, values, from, to }: RangeWindow): number | undefined {
  if (to - from < 2) return undefined;
  const last = values[to - 1] ?? Number.NaN;
  const before = values[to - 2] ?? Number.NaN;
  const seconds = ((timesMs[to - 1] ?? 0) - (timesMs[to - 2] ?? 0)) / 1_000;
  if (seconds === 0) return undefined;
  return (last < before ? last : last - before) / seconds;
}

/** Of the line with the least squares, per second. */
function slope(window: RangeWindow): number | undefined {
  const { timesMs, values, from, to } = window;
  const count = to - from;
  if (count < 2) return undefined;
  const originMs = timesMs[from] ?? 0;
  let [sumX, sumY, sumXY, sumXX] = [0, 0, 0, 0];
  for (let index = from; index < to; index += 1) {
    const x = ((timesMs[index] ?? 0) - originMs) / 1_000;
    // Relative to the first value: large counters would lose their last digits.
    const y = (values[index] ?? Number.NaN) - (values[from] ?? 0);
    sumX += x;
    sumY += y;
    sumXY += x * y;
    sumXX += x * x;
  }
  return (sumXY - (sumX * sumY) / count) / (sumXX - (sumX * sumX) / count);
}

function total({ values, from, to }: RangeWindow): number {
  let sum = 0;
  for (let index = from; index < to; index += 1) sum += values[index] ?? Number.NaN;
  return sum;
}

function mean(window: RangeWindow): number {
  return total(window) / (window.to - window.from);
}

/** NaN only where all samples are. */
function extreme(
  { values, from, to }: RangeWindow,
  isBetter: (a: number, b: number) => boolean,
): number {
  let best = values[from] ?? Number.NaN;
  for (let index = from + 1; index < to; index += 1) {
    const value = values[index] ?? Number.NaN;
    if (isBetter(value, best) || Number.isNaN(best)) best = value;
  }
  return best;
}
