/** What a benchmark is asked to do, and the load that this comes to within every bound. */
import { mebibytes } from "./byte-text.ts";
import { DomainError, type FieldError } from "./error.ts";
import type { BenchmarkId } from "./id.ts";

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
  /** Undefined: `BENCHMARK_RATE_DEFAULT`. */
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
/** Bytes per second. Every size keeps up with it, so that the latencies are the broker's. */
export const BENCHMARK_RATE_DEFAULT = 16 * 1024 ** 2;
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
  const asked = bytesPerSecond ?? Math.min(BENCHMARK_RATE_DEFAULT, benchmarkRateMax(walBytes));
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
}: {
  readonly id: BenchmarkId;
  readonly request: BenchmarkRequest;
  /** The rate that the request came to. */
  readonly bytesPerSecond: number;
}): BenchmarkLoad {
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
      "Change the rate, the duration or the record size. Without a rate, 16 MiB per second are used.",
    fields: [field],
  });
}
