import {
  assertRoomForBenchmark,
  BENCHMARKS_KEPT,
  type BenchmarkRequest,
  type BenchmarkTuning,
  benchmarkRate,
  type Clock,
  type Cluster,
  type ClusterId,
  checkBenchmark,
  clusterNotReady,
  DomainError,
  newId,
  type Operation,
  type Principal,
  providerOf,
  TUNING_KNOBS,
  type TuningValues,
  walCapacityOf,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { lockCluster } from "../cluster/lock-cluster.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { startOperation } from "../engine/index.ts";
import { cancelDriftCheck } from "../operation/cancel-drift-check.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { readSettings } from "../tuning/broker-tuning.ts";
import { valuesOf } from "../tuning/tuning-view.ts";

export interface RunBenchmarkInput extends BenchmarkRequest {
  readonly clusterId: ClusterId;
}

/** Benchmarks under way at a time: their loads share this machine, and would measure each other. */
const UNDER_WAY_MAX = 1;
const HOUR_MS = 60 * 60_000;
/** One every ninety seconds; fewer than are kept of one cluster, so that all of them are counted. */
const RUNS_PER_HOUR_MAX = 40;
/** Four of the largest: a bucket is paid for what is written to it. */
const BYTES_PER_HOUR_MAX = 64 * 1024 ** 3;

/**
 * Starts a load on a topic of its own, bounded in time, rate and bytes. Refused where it would harm the
 * cluster's clients. Throws `not_found`, `not_supported`, `limit_exceeded`, `cluster_not_ready`,
 * `cluster_busy`, `benchmark_refused`, `broker_unavailable`.
 */
export async function runBenchmark(
  core: Core,
  principal: Principal,
  { clusterId, ...request }: RunBenchmarkInput,
): Promise<Operation> {
  const found = await requireCluster(core, principal, clusterId);
  assertSupported(found);
  checkBenchmark(walCapacityOf(found), request);
  await cancelDriftCheck(core, principal, found.id);
  await core.db.operations.refuseBusy(found.id);
  if (found.phase !== "RUNNING") throw clusterNotReady(found);
  await refuseSecond(core.db);
  const values = valuesOf(found, await readSettings(core, found));
  const storage = await atBroker(undefined, async () => (await core.brokerHttp(found)).storage());
  assertRoomForBenchmark(storage, values.upload_threshold_bytes);
  const by = await changerBehind(core, principal);
  return core.db.transaction(async (tx) => {
    const cluster = await lockCluster(tx, principal, { clusterId });
    await tx.operations.refuseBusy(cluster.id);
    if (cluster.phase !== "RUNNING") throw clusterNotReady(cluster);
    await tx.benchmarks.lockStart();
    await refuseSecond(tx);
    await refuseMany(
      tx,
      core.clock,
      principal,
      benchmarkRate(request, walCapacityOf(cluster)) * request.durationSeconds,
    );
    const id = newId("bmk");
    const benchmark = { id, durationSeconds: request.durationSeconds };
    const operation = await startOperation(tx, core.clock, cluster, "cluster.benchmark", {
      benchmark,
    });
    await tx.benchmarks.create({
      ...{ id, clusterId: cluster.id, operationId: operation.id, request, by },
      ...{ size: cluster.size, createdAt: core.clock.now() },
      bytesPerSecond: benchmarkRate(request, walCapacityOf(cluster)),
      tuning: tuningOf(cluster, values, await tx.benchmarks.lastTuning(cluster.id)),
    });
    await tx.benchmarks.prune(cluster.id, BENCHMARKS_KEPT);
    return operation;
  });
}

/** The load starts on this machine, from which brokers on AWS cannot be reached. */
function assertSupported({ name, region }: Cluster): void {
  if (providerOf(region) === "local") return;
  throw new DomainError(
    "not_supported",
    `Cluster ${name} is on AWS, where benchmarks cannot run yet.`,
    { remedy: "Run `millrace perf` from a machine that reaches the cluster." },
  );
}

async function refuseSecond({ operations }: Pick<Core["db"], "operations">): Promise<void> {
  if ((await operations.countUnderWay("cluster.benchmark")) < UNDER_WAY_MAX) return;
  throw new DomainError("benchmark_refused", "Another benchmark is running on this machine.", {
    remedy: "Wait until it is done: both would measure each other.",
    retryAfterSeconds: 30,
  });
}

/** They share the machine and the buckets with other organizations. */
async function refuseMany(
  { benchmarks }: Pick<Core["db"], "benchmarks">,
  clock: Clock,
  { organizationId }: Principal,
  bytes: number,
): Promise<void> {
  const since = new Date(clock.now().getTime() - HOUR_MS);
  const started = await benchmarks.startedSince(organizationId, since);
  if (started.runs < RUNS_PER_HOUR_MAX && started.bytes + bytes <= BYTES_PER_HOUR_MAX) return;
  throw new DomainError(
    "benchmark_refused",
    `An organization runs at most ${RUNS_PER_HOUR_MAX} benchmarks per hour, which write at most ` +
      `${BYTES_PER_HOUR_MAX / 1024 ** 3} GiB together.`,
    { remedy: "Wait, or ask for a lower rate or a shorter load.", retryAfterSeconds: 600 },
  );
}

function tuningOf(
  { tuning }: Cluster,
  values: TuningValues,
  last: TuningValues | undefined,
): BenchmarkTuning {
  const before = last ?? values;
  const changed = TUNING_KNOBS.filter((knob) => before[knob] !== values[knob]);
  const changes = changed.map((knob) => ({ knob, from: before[knob], to: values[knob] }));
  return { version: tuning.version, values, changes };
}
