import {
  type ClusterId,
  type LagSample,
  METRIC_RESOLUTIONS,
  type MetricScrape,
  resolutionKept,
  type TopicScrape,
} from "@millrace/domain";
import type { MetricsReadings, TimeRange } from "../query-metrics.ts";
import type { Budget } from "./budget.ts";
import { type LabelMatcher, matchesAll, matchesName, onlyValue } from "./label-matcher.ts";
import { LabelSet, NAME_LABEL } from "./label-set.ts";
import { METRICS, type Metric, type ReadingKind } from "./metric-table.ts";
import { PromqlError } from "./promql-error.ts";
import type { Series } from "./series.ts";

/** What a reading takes, in values, whatever is used of it: a broker's has two histograms, others are mostly overhead. */
const VALUES: Readonly<Record<ReadingKind, number>> = { broker: 80, topics: 16, groups: 16 };
/** Brokers are read this often; they are read more often only while somebody looks at the console. */
const READING_SECONDS = 10;

/** Where readings come from. */
export interface PromqlReadings extends MetricsReadings {
  /** At most so many readings of each broker `scrapes`, `topicScrapes` or `lag` would answer, as far as they are in chunks. */
  countUpTo(
    selection: {
      readonly clusterId: ClusterId;
      readonly kind: ReadingKind;
      readonly source?: string | undefined;
    },
    range: TimeRange,
    stepSeconds: number,
  ): Promise<number>;
}

/** A cluster and what was read of it. */
export interface ClusterReadings {
  readonly readings: PromqlReadings;
  readonly clusterId: ClusterId;
  readonly clusterName: string;
  readonly nowMs: number;
}

/** Readings that a selector needs: those of a time, at this distance, in seconds. */
export interface ReadingNeeds {
  readonly fromMs: number;
  /** Included. */
  readonly toMs: number;
  readonly finest: number;
  /** Where there are too many readings at the finest distance. */
  readonly coarsest: number;
}

/** Series, and how far apart their samples are at most. */
export interface LoadedSeries {
  readonly series: Series[];
  readonly distanceSeconds: number;
}

/** The series that all matchers match. Throws `execution` where there are too many readings, `timeout`. */
export async function loadSeries(
  cluster: ClusterReadings,
  matchers: readonly LabelMatcher[],
  needs: ReadingNeeds,
  budget: Budget,
): Promise<LoadedSeries> {
  const metrics = METRICS.filter(({ name }) => matchesName(matchers, name));
  const fitsCluster = matchers.every(
    ({ name, matches }) =>
      (name !== "cluster" || matches(cluster.clusterName)) &&
      (name !== "cluster_id" || matches(cluster.clusterId)),
  );
  const loaded: Series[] = [];
  let distanceSeconds = READING_SECONDS;
  if (!fitsCluster || needs.toMs < 0) return { series: loaded, distanceSeconds };
  for (const kind of new Set(metrics.map((each) => each.kind))) {
    const builder = new SeriesBuilder(cluster);
    const wanted = { kind, metrics, matchers, budget };
    const distance = await addReadings(builder, cluster, wanted, needs);
    distanceSeconds = Math.max(distanceSeconds, distance);
    for (const series of builder.series()) {
      if (matchesAll(matchers, series.labels)) loaded.push(series);
      await budget.pause();
    }
  }
  return { series: loaded, distanceSeconds };
}

interface Wanted {
  readonly kind: ReadingKind;
  readonly metrics: readonly Metric[];
  readonly matchers: readonly LabelMatcher[];
  readonly budget: Budget;
}

/** Gives the distance of the readings in seconds. */
async function addReadings(
  builder: SeriesBuilder,
  cluster: ClusterReadings,
  { kind, metrics, matchers, budget }: Wanted,
  needs: ReadingNeeds,
): Promise<number> {
  const { readings, clusterId: id } = cluster;
  const range = { from: new Date(Math.max(0, needs.fromMs)), to: new Date(needs.toMs + 1) };
  const source = onlyValue(matchers, SOURCE_LABELS[kind]);
  // Nothing in PostgreSQL has a NUL.
  if (source?.includes("\0")) return READING_SECONDS;
  const step = await distanceOf(cluster, { kind, source, budget }, { range, needs });
  if (kind === "topics") {
    const scrapes = await readings.topicScrapes(id, source, range, step);
    for (const metric of metrics) if (metric.kind === kind) builder.addTopics(metric, scrapes);
  } else if (kind === "groups") {
    const samples = await readings.lag(id, range, step, source);
    for (const metric of metrics) if (metric.kind === kind) builder.addGroups(metric, samples);
  } else {
    const broker = source !== undefined && /^\d{1,9}$/.test(source) ? Number(source) : undefined;
    const scrapes = await readings.scrapes(id, range, step, broker);
    for (const metric of metrics) if (metric.kind === kind) builder.addBrokers(metric, scrapes);
  }
  return step;
}

/** The label whose value the store can select by. */
const SOURCE_LABELS: Readonly<Record<ReadingKind, string>> = {
  broker: "broker",
  topics: "topic",
  groups: "group",
};

/** The finest distance at which there are not too many readings. Throws `execution`. */
async function distanceOf(
  { readings, clusterId, nowMs }: ClusterReadings,
  {
    budget,
    ...selection
  }: { readonly kind: ReadingKind; readonly source: string | undefined; readonly budget: Budget },
  {
    range,
    needs: { finest, coarsest },
  }: { readonly range: TimeRange; readonly needs: ReadingNeeds },
): Promise<number> {
  const kept = resolutionKept((nowMs - range.to.getTime()) / 1_000);
  const least = Math.max(kept, READING_SECONDS);
  const distances = METRIC_RESOLUTIONS.filter((each) => each >= least);
  const begin = distances.findLast((each) => each <= finest) ?? least;
  for (const distance of distances.filter((each) => each >= begin)) {
    if (distance > Math.max(begin, coarsest)) break;
    const count = await readings.countUpTo({ clusterId, ...selection }, range, distance);
    const values = count * VALUES[selection.kind];
    if (!budget.hasValues(values)) continue;
    budget.takeValues(values);
    return distance;
  }
  throw new PromqlError(
    "execution",
    `the query takes too many readings: choose a shorter range, a larger step, fewer selectors, or one ${SOURCE_LABELS[selection.kind]}`,
  );
}

/** Puts readings, which come in order of time within each source, into series. */
class SeriesBuilder {
  /** A cluster can be renamed, which changes its series of the past as well. Its id stays. */
  readonly #ofCluster: Readonly<Record<"cluster" | "cluster_id", string>>;
  readonly #series = new Map<string, { labels: LabelSet; timesMs: number[]; values: number[] }>();

  constructor({ clusterName, clusterId }: ClusterReadings) {
    this.#ofCluster = { cluster: clusterName, cluster_id: clusterId };
  }

  addBrokers(metric: Metric & { kind: "broker" }, readings: readonly MetricScrape[]): void {
    for (const reading of readings) {
      const source = { broker: `${reading.brokerId}` };
      this.#add(metric, source, reading.at, metric.valuesOf(reading));
    }
  }

  addTopics(metric: Metric & { kind: "topics" }, readings: readonly TopicScrape[]): void {
    for (const reading of readings) {
      const source = { broker: `${reading.brokerId}`, topic: reading.topic };
      this.#add(metric, source, reading.at, metric.valuesOf(reading));
    }
  }

  addGroups(metric: Metric & { kind: "groups" }, readings: readonly LagSample[]): void {
    for (const reading of readings) {
      this.#add(metric, { group: reading.groupId }, reading.at, metric.valuesOf(reading));
    }
  }

  series(): Series[] {
    return [...this.#series.values()];
  }

  #add(
    metric: Metric,
    source: Readonly<Record<string, string>>,
    at: Date,
    values: ReturnType<Metric["valuesOf"]>,
  ): void {
    const prefix = [metric.name, ...Object.values(source)].join("\u0000");
    for (const [labelValue, value] of values) {
      const key = `${prefix}\u0000${labelValue}`;
      let series = this.#series.get(key);
      if (series === undefined) {
        const varying = metric.variesBy === undefined ? {} : { [metric.variesBy]: labelValue };
        const own = { [NAME_LABEL]: metric.name, ...this.#ofCluster };
        const labels = LabelSet.of({ ...source, ...metric.labels, ...varying, ...own });
        series = { labels, timesMs: [], values: [] };
        this.#series.set(key, series);
      }
      series.timesMs.push(at.getTime());
      series.values.push(value);
    }
  }
}
