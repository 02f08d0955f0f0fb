/** What Prometheus' HTTP API asks, answered from stored readings. */
import { resolutionKept } from "@millrace/domain";
import { Budget } from "./budget.ts";
import { evaluateAt, evaluateOver, type QueryResult, type Steps } from "./evaluate.ts";
import { type Selector, selectorsOf } from "./expression.ts";
import type { LabelMatcher } from "./label-matcher.ts";
import type { LabelSet } from "./label-set.ts";
import { type ClusterReadings, loadSeries, type ReadingNeeds } from "./load-series.ts";
import { METRICS } from "./metric-table.ts";
import { parseQuery } from "./parse.ts";
import { badQuery, PromqlError } from "./promql-error.ts";
import type { SelectedSeries } from "./series.ts";

/** Prometheus' own bound: more than a screen has pixels. */
export const POINTS_MAX = 11_000;
/** Each loads readings of its own. */
const SELECTORS_MAX = 20;
/** A sample counts for so many distances between readings: two may be missed before a line has a gap. */
const LOOKBACK_READINGS = 3;
/** Names of series come from the readings of so much time before the end that is asked for. */
const NAMES_RANGE_MS = 6 * 3_600_000;
/** A window has so many readings, or at least so many where there are too many of them in all. */
const WINDOW_READINGS = 30;
const WINDOW_READINGS_MIN = 4;
/** Instants are read this far apart at most where there are too many readings. */
const INSTANT_SECONDS_MAX = 60;

/** The value of a query at one time. Throws `PromqlError`. */
export async function queryAt(
  cluster: ClusterReadings,
  query: string,
  timeMs: number,
): Promise<QueryResult> {
  const expression = parseQuery(query);
  const budget = new Budget();
  const steps = { startMs: timeMs, endMs: timeMs, stepMs: 0 };
  const series = await loadAll(cluster, query, {
    selectors: selectorsOf(expression),
    steps,
    budget,
  });
  return evaluateAt(expression, { series, budget }, timeMs);
}

/** The values of a query at each step. Throws `PromqlError`. */
export async function queryOver(
  cluster: ClusterReadings,
  query: string,
  steps: Steps,
): Promise<QueryResult> {
  const { startMs, endMs, stepMs } = steps;
  if (endMs < startMs)
    throw new PromqlError("bad_data", "end timestamp must not be before start time");
  if (!(stepMs > 0)) {
    throw new PromqlError(
      "bad_data",
      "zero or negative query resolution step widths are not accepted",
    );
  }
  if ((endMs - startMs) / stepMs > POINTS_MAX) {
    throw new PromqlError(
      "bad_data",
      "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
    );
  }
  const expression = parseQuery(query);
  const budget = new Budget();
  const series = await loadAll(cluster, query, {
    selectors: selectorsOf(expression),
    steps,
    budget,
  });
  return await evaluateOver(expression, { series, budget }, steps);
}

/** The labels of the series that one of the selectors selects, or of all of them. Throws `PromqlError`. */
export async function findSeries(
  cluster: ClusterReadings,
  selectors: readonly string[],
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<LabelSet[]> {
  if (toMs < fromMs)
    throw new PromqlError("bad_data", "end timestamp must not be before start time");
  if (selectors.length > SELECTORS_MAX) throw tooManySelectors();
  const sets: readonly (readonly LabelMatcher[])[] =
    selectors.length === 0 ? [[]] : selectors.map(matchersOf);
  const range = { fromMs: Math.max(fromMs, toMs - NAMES_RANGE_MS), toMs };
  const budget = new Budget();
  const found = new Map<string, LabelSet>();
  for (const matchers of sets) {
    const needs = { ...range, finest: 60, coarsest: 600 };
    const { series } = await loadSeries(cluster, matchers, needs, budget);
    for (const { labels } of series) found.set(labels.key, labels);
  }
  return [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Type and help of every metric, in the shape of Prometheus' API. */
export function metadata(
  metric?: string,
): Record<string, { type: string; help: string; unit: string }[]> {
  const families = METRICS.filter(({ family }) => metric === undefined || family === metric);
  return Object.fromEntries(
    families.map(({ family, type, help }) => [family, [{ type, help, unit: "" }]]),
  );
}

function matchersOf(selector: string): readonly LabelMatcher[] {
  const expression = parseQuery(selector);
  if (expression.kind === "selector" && expression.type === "vector" && expression.offsetMs === 0) {
    return expression.matchers;
  }
  throw badQuery(selector, 0, "match[] must be a series selector");
}

async function loadAll(
  cluster: ClusterReadings,
  query: string,
  {
    selectors,
    steps,
    budget,
  }: {
    readonly selectors: readonly Selector[];
    readonly steps: Steps;
    readonly budget: Budget;
  },
): Promise<Map<Selector, SelectedSeries>> {
  if (selectors.length > SELECTORS_MAX) throw tooManySelectors();
  const loaded = new Map<Selector, SelectedSeries>();
  for (const selector of selectors) {
    const { needs, keptSeconds } = needsOf(selector, steps, cluster.nowMs);
    if (!Number.isSafeInteger(needs.fromMs) || Math.abs(needs.toMs) > TIME_MS_MAX) {
      throw badQuery(query, selector.at, "the range or offset is too large");
    }
    const { series, distanceSeconds } = await loadSeries(cluster, selector.matchers, needs, budget);
    const lookbackMs = lookbackOf(Math.max(distanceSeconds, keptSeconds));
    loaded.set(selector, { series, lookbackMs });
  }
  return loaded;
}

/** The year 2286: nothing was read after it, and dates end later. */
export const TIME_MS_MAX = 1e13;

function tooManySelectors(): PromqlError {
  return new PromqlError("bad_data", `a query has at most ${SELECTORS_MAX} selectors`);
}

function lookbackOf(distanceSeconds: number): number {
  return LOOKBACK_READINGS * distanceSeconds * 1_000;
}

/** Also how far apart the oldest of the readings are stored. */
function needsOf(
  { rangeMs, offsetMs }: Selector,
  { startMs, endMs, stepMs }: Steps,
  nowMs: number,
): { readonly needs: ReadingNeeds; readonly keptSeconds: number } {
  const beginMs = startMs - offsetMs;
  const keptSeconds = resolutionKept((nowMs - beginMs) / 1_000);
  const lookbackMs = lookbackOf(Math.max(INSTANT_SECONDS_MAX, keptSeconds));
  const span = {
    fromMs: Math.floor(beginMs - (rangeMs ?? lookbackMs)),
    toMs: Math.ceil(endMs - offsetMs),
  };
  if (rangeMs === undefined) {
    const finest = Math.min(stepMs / 1_000, INSTANT_SECONDS_MAX);
    return { needs: { ...span, finest, coarsest: INSTANT_SECONDS_MAX }, keptSeconds };
  }
  const seconds = rangeMs / 1_000;
  const [finest, coarsest] = [seconds / WINDOW_READINGS, seconds / WINDOW_READINGS_MIN];
  return { needs: { ...span, finest, coarsest }, keptSeconds };
}
