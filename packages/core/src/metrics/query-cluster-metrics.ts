import {
  type ClusterId,
  type DomainError,
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

/** Range of a query that names none. */
const RANGE_DEFAULT_MS = 15 * 60 * 1_000;
/** A century: longer than any range that is meant, and no step outgrows a 32-bit number. */
const RANGE_SECONDS_MAX = 100 * 366 * 24 * 3_600;
/** Charts with points closer than this show what happens now: the cluster is read more often meanwhile. */
const LIVE_STEP_SECONDS_MAX = 4;
/** Points per series when the caller leaves the step to us: enough for a wide chart. */
const POINTS_DEFAULT = 300;

export interface QueryClusterMetricsInput {
  readonly clusterId: ClusterId;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
  readonly stepSeconds?: number | undefined;
  /** One of these narrows the answer to the series of that broker, topic or group. */
  readonly brokerId?: number | undefined;
  readonly topic?: string | undefined;
  readonly groupId?: string | undefined;
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
 * A cluster's series, whatever its phase. The step is at least the resolution that is kept of the range's begin.
 * Throws `not_found`, `validation_failed`.
 */
export async function queryClusterMetrics(
  core: Core,
  principal: Principal,
  input: QueryClusterMetricsInput,
): Promise<ClusterMetrics> {
  // One transaction: each of its own would cost three statements more.
  const answer = await core.db.transaction(async (tx) => {
    const { id: clusterId } = await requireCluster({ db: tx }, principal, input.clusterId);
    const { from, to, stepSeconds } = rangeOf(input, core.clock.now());
    const { brokerId, topic, groupId } = input;
    const query = { clusterId, from, to, stepSeconds, brokerId, topic, groupId };
    const series = await queryMetrics(tx.metrics, query);
    const newest = await tx.metrics.newest(clusterId, brokerId);
    return { from, to, stepSeconds, newest: newest?.at, series };
  });
  // By itself: it changes a row that a worker changes for all clusters at once, and the readings take a while.
  if (answer.stepSeconds <= LIVE_STEP_SECONDS_MAX) {
    await core.db.scrapeLeases.watch(input.clusterId);
  }
  return answer;
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
  if (from.getTime() < 0) throw invalid("/from", "must not be before 1970");
  if (seconds > RANGE_SECONDS_MAX) throw invalid("/from", "must be less than a century before to");
  const { brokerId, topic, groupId } = input;
  const narrowed = [brokerId, topic, groupId].filter((each) => each !== undefined);
  if (narrowed.length > 1) throw invalid("", "must have at most one of broker, topic and group");
  const asked = input.stepSeconds ?? Math.ceil(seconds / POINTS_DEFAULT);
  if (seconds / Math.max(asked, METRIC_STEP_SECONDS_MIN) > METRIC_POINTS_MAX) {
    throw invalid("/step", `must be larger: the range has more than ${METRIC_POINTS_MAX} points`);
  }
  const ageSeconds = (now.getTime() - from.getTime()) / 1_000;
  return { from, to, stepSeconds: Math.max(asked, resolutionKept(ageSeconds)) };
}

function invalid(pointer: string, message: string): DomainError {
  return validationFailed([{ pointer, code: "out_of_range", message }]);
}
