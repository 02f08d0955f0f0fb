/** A benchmark, its samples and its report. */
import { type BenchmarkRequest, benchmarkLoad } from "./benchmark-load.ts";
import type { BenchmarkId, ClusterId, OperationId } from "./id.ts";
import type { OperationFailure, OperationPhase } from "./operation.ts";
import type { ClusterSize } from "./size.ts";
import type { Changer, KnobChange, TuningValues } from "./tuning.ts";

/** Finished benchmarks kept per cluster, with their samples; the oldest are removed. */
export const BENCHMARKS_KEPT = 50;
/** Samples kept of one benchmark: one a second for the longest load, and its margin. */
export const BENCHMARK_SAMPLES_MAX = 400;

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

/** Fewer records than this share are those in flight when the load ended. */
export const BENCHMARK_UNSENT_SHARE_MIN = 0.001;
/** A load that reached less than this share of its rate did not run at it. */
const REACHED_SHARE_MIN = 0.95;

/**
 * Whether the load ran at its rate. Otherwise the latencies, which count from when a record was due, include its
 * waiting in the client.
 */
export function keptUp(
  benchmark: Pick<Benchmark, "id" | "request" | "bytesPerSecond">,
  { produced, unsentRecords }: Pick<BenchmarkReport, "produced" | "unsentRecords">,
): boolean {
  if (produced === undefined) return true;
  const { recordsPerSecond } = benchmarkLoad(benchmark);
  const reached = produced.recordsPerSecond >= REACHED_SHARE_MIN * recordsPerSecond;
  return reached && unsentRecords <= BENCHMARK_UNSENT_SHARE_MIN * produced.records;
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
