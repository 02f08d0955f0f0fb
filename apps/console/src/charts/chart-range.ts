"use client";

import { METRIC_KEEP_SECONDS, resolutionFor } from "@millrace/domain";
import { usePathname, useRouter, useSearchParams } from "next/navigation";

/** A span in milliseconds since the epoch. */
export interface Range {
  from: number;
  to: number;
}

/**
 * What a chart shows at most, which has room for more. A quarter of an hour has a step of 4 s, for which the API has the
 * cluster read more often; a longer step is no live chart.
 */
const POINTS = 225;
/** The API's smallest step. */
const STEP_SECONDS_MIN = 2;
/** A shorter span has nothing between two readings. */
const RANGE_MS_MIN = 10_000;

/** How long metrics are kept, in milliseconds: no range is longer. */
export const RANGE_MS_MAX = Math.max(...Object.values(METRIC_KEEP_SECONDS)) * 1_000;
/** From this step on a chart is an overview: its live view has the interval under way, too. */
const COARSE_STEP_SECONDS = 60;
/** Brokers are read this often at least. */
const READ_SECONDS = 10;

export function isCoarse(stepSeconds: number): boolean {
  return stepSeconds >= COARSE_STEP_SECONDS;
}

/**
 * Where a live range ends. The API answers whole intervals only: with a step of hours, the last hours, or all of a new
 * cluster, would be missing. So a coarse range ends with the interval under way, once a reading of the step's resolution
 * is in it. Its values are those measured so far.
 */
export function liveEnd(now: number, stepSeconds: number): number {
  if (!isCoarse(stepSeconds)) return now;
  const stepMs = stepSeconds * 1_000;
  const measuredAfterMs = (resolutionFor(stepSeconds) + READ_SECONDS) * 1_000;
  return Math.ceil((now - measuredAfterMs) / stepMs) * stepMs;
}

/** Seconds between points, so that a chart of the range is neither coarse nor crowded. */
export function stepOf({ from, to }: Range): number {
  // Of whole seconds: a live range is a millisecond longer now and then, and would have another step then.
  return Math.max(STEP_SECONDS_MIN, Math.ceil(Math.floor((to - from) / 1_000) / POINTS));
}

/** The range in a URL's query; undefined where there is none that makes sense. */
export function rangeIn(search: Pick<URLSearchParams, "get">): Range | undefined {
  const [from, to] = [search.get("from"), search.get("to")].map((text) =>
    text !== null && /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN,
  );
  if (from === undefined || to === undefined) return undefined;
  const length = to - from;
  return length >= RANGE_MS_MIN && length <= RANGE_MS_MAX ? { from, to } : undefined;
}

/** The query with the range; without one, the live view. A range that is too short is widened around its middle. */
export function withRange(search: string, range: Range | undefined): string {
  const next = new URLSearchParams(search);
  next.delete("from");
  next.delete("to");
  if (range) {
    const missing = Math.max(0, RANGE_MS_MIN - (range.to - range.from)) / 2;
    next.set("from", String(Math.floor(range.from - missing)));
    next.set("to", String(Math.ceil(range.to + missing)));
  }
  return next.toString();
}

/** The range that all charts of a page show, kept in the URL; undefined while they are live. */
export function useChartRange(): [Range | undefined, (range: Range | undefined) => void] {
  const router = useRouter();
  const path = usePathname();
  const search = useSearchParams();
  const set = (range: Range | undefined) => {
    const query = withRange(search.toString(), range);
    router.replace(query === "" ? path : `${path}?${query}`, { scroll: false });
  };
  return [rangeIn(search), set];
}
