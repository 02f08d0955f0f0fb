import { DomainError, type FieldError } from "./error.ts";
import type { BenchmarkId, ClusterId, OperationId } from "./id.ts";
import type { OperationFailure, OperationPhase } from "./operation.ts";
import type { ClusterSize } from "./size.ts";
import type { Changer, KnobChange, TuningValues } from "./tuning.ts";

/**
 * - `produce`     writes records at a rate;
 * - `end_to_end`  reads them as they are written: the latency is from produce to consume;
 * - `catch_up`    writes a backlog for half of the time, then reads it from the beginning while
 *                 producers go on.
 */
export const BENCHMARK_WORKLOADS = ["produce", "end_to_end", "catch_up"] as const;
export type BenchmarkWorkload = (typeof BENCHMARK_WORKLOADS)[number];

/** What a caller asks of a benchmark. */
export interface BenchmarkRequest {
  readonly workload: BenchmarkWorkload;
  /** How long the load lasts, warm-up included. */
  readonly durationSeconds: number;
  readonly recordSizeBytes: number;
  /** Undefined: as much as the cluster's write-ahead log allows. */
  readonly bytesPerSecond: number | undefined;
  readonly partitions: number;
}

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly default: number;
}

/** Bounds of a request, whatever the cluster's size. */
export const BENCHMARK_BOUNDS = {
  /** Below ten seconds one upload decides the figures; five minutes show every periodic effect. */
  durationSeconds: { min: 10, max: 300, default: 30 },
  /** The broker accepts records of 1 MiB by default. */
  recordSizeBytes: { min: 1, max: 1_048_576, default: 1_024 },
  /** More than the cores of the largest size: further partitions only cost memory. */
  partitions: { min: 1, max: 64, default: 4 },
} as const satisfies Record<string, Bounds>;

/** Bytes that one benchmark writes at most: they also go to the bucket, and through the network. */
export const BENCHMARK_BYTES_MAX = 16 * 1024 ** 3;
/** Small records cost CPU per record, not per byte. */
const RECORDS_PER_SECOND_MAX = 1_000_000;
/**
 * Part of the write-ahead log that a benchmark may fill each second. The log is looked at twice a second:
 * from `WAL_FILL_RUN_MAX`, it is not full at the next look where nothing is uploaded.
 */
const WAL_SHARE_PER_SECOND = 1 / 4;
/** Warm-up is the first part of the load, of which no figure tells. */
const WARM_UP_SHARE = 1 / 5;
const WARM_UP_SECONDS_MAX = 5;
/** Finished benchmarks kept per cluster, with their samples; the oldest are removed. */
export const BENCHMARKS_KEPT = 50;
/** Samples kept of one benchmark: one a second for the longest load, and its margin. */
export const BENCHMARK_SAMPLES_MAX = 400;
/** Records that are consumed carry their number, time and checksum. */
export const CONSUMED_RECORD_BYTES_MIN = 32;

/** The load of a benchmark, with every bound applied. */
export interface BenchmarkLoad {
  readonly workload: BenchmarkWorkload;
  readonly topic: string;
  readonly partitions: number;
  readonly recordSizeBytes: number;
  readonly recordsPerSecond: number;
  readonly warmUpSeconds: number;
  /** After the warm-up. */
  readonly testSeconds: number;
  /** Of records, without what the protocol adds. */
  readonly bytesMax: number;
}

/** The highest rate for a cluster with a write-ahead log of this size, in bytes per second. */
export function benchmarkRateMax(walBytes: number): number {
  return Math.floor(walBytes * WAL_SHARE_PER_SECOND);
}

/** The rate that a request comes to: bounded by the log and by what a benchmark writes in all. */
export function benchmarkRate(
  { bytesPerSecond, durationSeconds }: Pick<BenchmarkRequest, "bytesPerSecond" | "durationSeconds">,
  walBytes: number,
): number {
  const asked = bytesPerSecond ?? benchmarkRateMax(walBytes);
  return Math.floor(Math.min(asked, BENCHMARK_BYTES_MAX / durationSeconds));
}

/** The topic that a benchmark writes to, and nobody else. */
export function benchmarkTopic(id: BenchmarkId): string {
  return `millrace-benchmark-${id.slice("bmk_".length).toLowerCase()}`;
}

export function benchmarkLoad({
  id,
  request,
  bytesPerSecond,
}: Pick<Benchmark, "id" | "request" | "bytesPerSecond">): BenchmarkLoad {
  const { workload, partitions, recordSizeBytes, durationSeconds } = request;
  const records = Math.max(1, Math.floor(bytesPerSecond / recordSizeBytes));
  const recordsPerSecond = Math.min(records, RECORDS_PER_SECOND_MAX);
  const warmUpSeconds = Math.min(WARM_UP_SECONDS_MAX, Math.floor(durationSeconds * WARM_UP_SHARE));
  return {
    ...{ workload, partitions, recordSizeBytes, recordsPerSecond, warmUpSeconds },
    topic: benchmarkTopic(id),
    testSeconds: durationSeconds - warmUpSeconds,
    bytesMax: Math.min(BENCHMARK_BYTES_MAX, recordsPerSecond * recordSizeBytes * durationSeconds),
  };
}

/** Throws `limit_exceeded` where the request is beyond what a cluster with such a write-ahead log is asked. */
export function checkBenchmark(walBytes: number, request: BenchmarkRequest): void {
  const { workload, bytesPerSecond, durationSeconds, recordSizeBytes } = request;
  if (workload !== "produce" && recordSizeBytes < CONSUMED_RECORD_BYTES_MIN) {
    throw beyond(
      "record_size_bytes",
      `must be at least ${CONSUMED_RECORD_BYTES_MIN} for the workload ${workload}: each record carries its time and checksum`,
    );
  }
  if (bytesPerSecond === undefined) return;
  const rateMax = benchmarkRateMax(walBytes);
  if (bytesPerSecond > rateMax) {
    throw beyond(
      "bytes_per_second",
      `must be at most ${rateMax}: a quarter of the write-ahead log of ${mebibytes(walBytes)} per second`,
    );
  }
  if (bytesPerSecond < recordSizeBytes) {
    throw beyond("bytes_per_second", `must be at least record_size_bytes, ${recordSizeBytes}`);
  }
  const total = bytesPerSecond * durationSeconds;
  if (total > BENCHMARK_BYTES_MAX) {
    throw beyond(
      "bytes_per_second",
      `times duration_seconds is ${total} bytes; a benchmark writes at most ${BENCHMARK_BYTES_MAX}`,
    );
  }
}

function beyond(name: "bytes_per_second" | "record_size_bytes", message: string): DomainError {
  const field: FieldError = { pointer: `/${name}`, code: "out_of_bounds", message };
  return new DomainError("limit_exceeded", `${name} ${message}.`, {
    remedy:
      "Change the rate, the duration or the record size. Without a rate, the highest one is used.",
    fields: [field],
  });
}

/** What a broker says of its storage, in bytes. */
export interface BrokerStorage {
  readonly walCapacityBytes: number;
  readonly walUsedBytes: number;
  /** Acknowledged, and not in the bucket yet. */
  readonly uploadPendingBytes: number;
  /** Why nothing is uploaded; undefined where uploads run. */
  readonly uploadsWaitFor: string | undefined;
}

/** A benchmark does not start with the write-ahead log fuller than this. */
const WAL_FILL_START_MAX = 0.5;
/** A benchmark is stopped when the log is fuller than this; at 100 % every producer waits. */
const WAL_FILL_RUN_MAX = 0.7;
/** Uploads are behind when this many uploads' worth of data waits. */
const PENDING_UPLOADS_MAX = 2;
const RETRY_AFTER_SECONDS = 30;

/**
 * Throws `benchmark_refused` where a load would harm the cluster's clients: its log is half full, or
 * its uploads do not keep up already.
 */
export function assertRoomForBenchmark(storage: BrokerStorage, uploadThresholdBytes: number): void {
  const { uploadsWaitFor, uploadPendingBytes } = storage;
  if (uploadsWaitFor !== undefined) {
    throw harmful(`Nothing is uploaded to the bucket now: ${uploadsWaitFor}.`);
  }
  const fill = walFill(storage);
  if (fill > WAL_FILL_START_MAX) {
    throw harmful(
      `The write-ahead log is ${percent(fill)} full; a benchmark starts at ${percent(WAL_FILL_START_MAX)} or less.`,
    );
  }
  if (uploadPendingBytes > PENDING_UPLOADS_MAX * uploadThresholdBytes) {
    throw harmful(`Uploads are behind: ${mebibytes(uploadPendingBytes)} wait for the bucket.`);
  }
}

/** Why a running load has to stop for the sake of the cluster's clients; undefined where it may go on. */
export function benchmarkStopReason(storage: BrokerStorage): string | undefined {
  const { uploadsWaitFor } = storage;
  if (uploadsWaitFor !== undefined) {
    return `Stopped to protect other clients: nothing is uploaded to the bucket now: ${uploadsWaitFor}.`;
  }
  const fill = walFill(storage);
  if (fill <= WAL_FILL_RUN_MAX) return undefined;
  return (
    `Stopped to protect other clients: the write-ahead log became ${percent(fill)} full, because ` +
    "uploads did not keep up with the load. Run it again at a lower rate."
  );
}

function harmful(message: string): DomainError {
  return new DomainError("benchmark_refused", message, {
    remedy: "Wait until uploads have caught up, then try again.",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function walFill({ walUsedBytes, walCapacityBytes }: BrokerStorage): number {
  return walCapacityBytes === 0 ? 0 : walUsedBytes / walCapacityBytes;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}

/** Percentiles in milliseconds. */
export interface LatencyPercentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** One direction of a load: what was produced, or consumed. */
export interface BenchmarkFlow {
  readonly records: number;
  readonly bytes: number;
  readonly recordsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly errors: number;
  readonly latencyMs: LatencyPercentiles | undefined;
}

export const BENCHMARK_SAMPLE_PHASES = ["warmup", "test", "backlog", "catch_up"] as const;
export type BenchmarkSamplePhase = (typeof BENCHMARK_SAMPLE_PHASES)[number];

/** The load in one second; its counts are of that second or since the start, its rates of that second. */
export interface BenchmarkSample {
  readonly elapsedSeconds: number;
  readonly phase: BenchmarkSamplePhase;
  readonly produced: BenchmarkFlow | undefined;
  readonly consumed: BenchmarkFlow | undefined;
  /** Records that consumers are behind. */
  readonly lagRecords: number | undefined;
}

/** What a benchmark found, over its whole test. */
export interface BenchmarkReport {
  /** Of the measured part. */
  readonly durationSeconds: number;
  readonly produced: BenchmarkFlow | undefined;
  readonly consumed: BenchmarkFlow | undefined;
  /** From the moment a record was due to be produced until it was consumed. */
  readonly endToEndLatencyMs: LatencyPercentiles | undefined;
  readonly catchUp: BenchmarkCatchUp | undefined;
  /** Records that were due and not sent when the load ended: the producers did not keep up. */
  readonly unsentRecords: number;
}

/** How a backlog was read, from the start of the consumers. */
export interface BenchmarkCatchUp {
  readonly backlogBytes: number;
  readonly seconds: number;
  readonly bytesPerSecond: number;
  /** Whether the consumers reached what was being produced. */
  readonly complete: boolean;
  /** Of producers, before and while the backlog was read. */
  readonly produceLatencyBeforeMs: LatencyPercentiles | undefined;
  readonly produceLatencyDuringMs: LatencyPercentiles | undefined;
}

/** The tuning that a benchmark ran with. */
export interface BenchmarkTuning {
  readonly version: number;
  readonly values: TuningValues;
  /** Since the last benchmark with a report. */
  readonly changes: readonly Pick<KnobChange, "knob" | "from" | "to">[];
}

export interface Benchmark {
  readonly id: BenchmarkId;
  readonly clusterId: ClusterId;
  readonly operationId: OperationId;
  readonly request: BenchmarkRequest;
  /** The rate that the request came to. */
  readonly bytesPerSecond: number;
  readonly size: ClusterSize;
  readonly by: Changer;
  readonly tuning: BenchmarkTuning;
  /** Version of the tuning at the end; another one than at the start was set meanwhile. */
  readonly tuningVersionAtEnd: number | undefined;
  readonly report: BenchmarkReport | undefined;
  readonly createdAt: Date;
  /** As of its operation. */
  readonly phase: OperationPhase;
  readonly error: OperationFailure | undefined;
  readonly startedAt: Date | undefined;
  readonly endedAt: Date | undefined;
}
