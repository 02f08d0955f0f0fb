import type { Selector } from "./expression.ts";
import type { LabelSet } from "./label-set.ts";

/** Samples of one series, in order of time. */
export interface Series {
  readonly labels: LabelSet;
  readonly timesMs: readonly number[];
  readonly values: readonly number[];
}

/** What each selector of a query selects. */
export interface SelectedSeries {
  readonly series: readonly Series[];
  /** A sample counts for so long, unless a newer one comes. */
  readonly lookbackMs: number;
}

export type SeriesBySelector = ReadonlyMap<Selector, SelectedSeries>;

/** One element of an instant vector. */
export interface Sample {
  readonly labels: LabelSet;
  readonly value: number;
}

export type Vector = readonly Sample[];

/** How many of the times, which are in order, are at most `timeMs`. */
export function countUntil(timesMs: readonly number[], timeMs: number): number {
  let low = 0;
  let high = timesMs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((timesMs[middle] ?? Number.POSITIVE_INFINITY) <= timeMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
