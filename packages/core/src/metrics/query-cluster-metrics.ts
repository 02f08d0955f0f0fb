import {
  type ClusterId,
  type DomainError,
  METRIC_KEEP_SECONDS,
  METRIC_POINTS_MAX,
  METRIC_STEP_SECONDS_MIN,
  type MetricSeries,
  type Principal,
  resolutionKept,
  validationFailed,
} from "@millrace/domain";
import { queryMetrics } from "@millrace/metrics";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { type MetricSource, requireMetricSource } from "./require-metric-source.ts";

/** Range of a query that names none. */
const RANGE_DEFAULT_MS = 15 * 60 * 1_000;
const DAY_SECONDS = 86_400;
/** How old metrics get. */
const KEEP_DAYS = METRIC_KEEP_SECONDS[600] / DAY_SECONDS;
/** For clocks that differ, and ranges that were worked out a while ago. */
const SLACK_DAYS = 1;
/** Longer than any range that has metrics: one that ends in the future has none there. */
const RANGE_DAYS_MAX = 2 * KEEP_DAYS;
const UNIT = "times are RFC 3339, or milliseconds since the epoch, not seconds";
/** Charts with points closer than this show what happens now: the cluster is read more often meanwhile. */
const LIVE_STEP_SECONDS_MAX = 4;
/** Points per series when the caller leaves the step to us: enough for a wide chart. */
const POINTS_DEFAULT = 300;

export interface QueryClusterMetricsInput extends MetricSource {
  readonly clusterId: ClusterId;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
  readonly stepSeconds?: number | undefined;
}

export interface ClusterMetrics {
  readonly from: Date;
  readonly to: Date;
  readonly stepSeconds: number;
  /** Time of the cluster's last reading; undefined where there is none. */
  readonly newest: Date | undefined;
  readonly series: readonly MetricSeries[];
}

/**
 * A cluster's series, whatever its phase. A topic, group or broker that does not exist and has no points is `not_found`. The step is at least the resolution that is kept of the range's begin.
 * Throws `not_found`, `validation_failed`.
 */
export async function queryClusterMetrics(
  core: Core,
  principal: Principal,
  input: QueryClusterMetricsInput,
): Promise<ClusterMetrics> {
  // One transaction: each of its own would cost three statements more.
  const { cluster, metrics } = await core.db.transaction(async (tx) => {
    const cluster = await requireCluster({ db: tx }, principal, input.clusterId);
    const { id: clusterId } = cluster;
    const { from, to, stepSeconds } = rangeOf(input, core.clock.now());
    const { brokerId, topic, groupId } = input;
    const query = { clusterId, from, to, stepSeconds, brokerId, topic, groupId };
    const series = await queryMetrics(tx.metrics, query);
    const newest = await tx.metrics.newest(clusterId, brokerId);
    return { cluster, metrics: { from, to, stepSeconds, newest: newest?.at, series } };
  });
  // A broker is asked only here: a chart with points is read again every few seconds.
  if (!hasPoints(metrics.series)) await requireMetricSource(core, principal, cluster, input);
  // By itself: it changes a row that a worker changes for all clusters at once, and the readings take a while.
  if (metrics.stepSeconds <= LIVE_STEP_SECONDS_MAX) {
    await core.db.scrapeLeases.watch(input.clusterId);
  }
  return metrics;
}

function hasPoints(series: readonly MetricSeries[]): boolean {
  return series.some(({ points }) => points.some(([, value]) => value !== null));
}

/** Throws `validation_failed`. */
function rangeOf(
  input: QueryClusterMetricsInput,
  now: Date,
): Pick<ClusterMetrics, "from" | "to" | "stepSeconds"> {
  const to = input.to ?? now;
  const from = input.from ?? new Date(to.getTime() - RANGE_DEFAULT_MS);
  const seconds = (to.getTime() - from.getTime()) / 1_000;
  if (!(seconds > 0)) throw invalid("/from", "must be before to");
  const ageSeconds = (now.getTime() - from.getTime()) / 1_000;
  // A time in seconds or microseconds lies there, and would have no points without a word.
  if (ageSeconds > (KEEP_DAYS + SLACK_DAYS) * DAY_SECONDS) {
    throw invalid("/from", `must be within the last ${KEEP_DAYS} days: ${UNIT}`);
  }
  if (ageSeconds < -SLACK_DAYS * DAY_SECONDS) {
    throw invalid("/from", `must not be in the future: ${UNIT}`);
  }
  if (seconds > RANGE_DAYS_MAX * DAY_SECONDS) {
    throw invalid("/to", `must be less than ${RANGE_DAYS_MAX} days after from: ${UNIT}`);
  }
  const { brokerId, topic, groupId } = input;
  const narrowed = [brokerId, topic, groupId].filter((each) => each !== undefined);
  if (narrowed.length > 1) throw invalid("", "must have at most one of broker, topic and group");
  // There would be no whole interval, and so no point.
  if (input.stepSeconds !== undefined && input.stepSeconds > seconds) {
    throw invalid("/step", "must not be longer than the range");
  }
  const asked = input.stepSeconds ?? Math.ceil(seconds / POINTS_DEFAULT);
  if (seconds / Math.max(asked, METRIC_STEP_SECONDS_MIN) > METRIC_POINTS_MAX) {
    throw invalid("/step", `must be larger: the range has more than ${METRIC_POINTS_MAX} points`);
  }
  return { from, to, stepSeconds: Math.max(asked, resolutionKept(ageSeconds)) };
}

function invalid(pointer: string, message: string): DomainError {
  return validationFailed([{ pointer, code: "out_of_range", message }]);
}
