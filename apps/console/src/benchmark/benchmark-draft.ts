/** What somebody is about to run. Pure, so that it is tested alone. */
import type { Benchmark } from "@millrace/contract";
import {
  BENCHMARK_BOUNDS,
  BENCHMARK_BYTES_MAX,
  BENCHMARK_RATE_DEFAULT,
  type BenchmarkWorkload,
  benchmarkRateMax,
  CONSUMED_RECORD_BYTES_MIN,
} from "@millrace/domain";
import { bytes } from "../format/quantity.ts";

const MIB = 1024 ** 2;

/** Fields as they were typed. */
export interface BenchmarkDraft {
  workload: BenchmarkWorkload;
  seconds: number | string;
  recordBytes: number | string;
  mebibytesPerSecond: number | string;
  partitions: number | string;
}

export function newDraft(walBytes: number): BenchmarkDraft {
  return {
    workload: "produce",
    seconds: BENCHMARK_BOUNDS.durationSeconds.default,
    recordBytes: BENCHMARK_BOUNDS.recordSizeBytes.default,
    mebibytesPerSecond: Math.min(BENCHMARK_RATE_DEFAULT, benchmarkRateMax(walBytes)) / MIB,
    partitions: BENCHMARK_BOUNDS.partitions.default,
  };
}

/** The load of an earlier benchmark, as far as the cluster still allows it. */
export function draftOf(benchmark: Benchmark, walBytes: number): BenchmarkDraft {
  const rate = Math.min(benchmark.bytes_per_second, benchmarkRateMax(walBytes)) / MIB;
  return {
    workload: benchmark.workload,
    seconds: benchmark.duration_seconds,
    recordBytes: benchmark.record_size_bytes,
    // As the field shows it, and not above what it was.
    mebibytesPerSecond: Math.floor(rate * 100) / 100,
    partitions: benchmark.partitions,
  };
}

/** Bytes that the load writes at most; undefined while a field has no number. */
export function bytesWritten({ seconds, mebibytesPerSecond }: BenchmarkDraft): number | undefined {
  const total = Number(seconds) * rateOf(mebibytesPerSecond);
  return Number.isFinite(total) && total > 0 ? total : undefined;
}

function rateOf(mebibytesPerSecond: number | string): number {
  return Math.round(Number(mebibytesPerSecond) * MIB);
}

type Errors = Partial<Record<keyof BenchmarkDraft, string>>;

/** What is wrong with each field. */
export function draftErrors(draft: BenchmarkDraft, walBytes: number): Errors {
  const { durationSeconds, recordSizeBytes, partitions } = BENCHMARK_BOUNDS;
  const recordMin = draft.workload === "produce" ? recordSizeBytes.min : CONSUMED_RECORD_BYTES_MIN;
  const errors: Record<keyof Errors, string | undefined> = {
    workload: undefined,
    seconds: wholeError(draft.seconds, durationSeconds),
    recordBytes: wholeError(draft.recordBytes, { ...recordSizeBytes, min: recordMin }),
    partitions: wholeError(draft.partitions, partitions),
    mebibytesPerSecond: rateError(draft, walBytes),
  };
  return Object.fromEntries(Object.entries(errors).filter(([, error]) => error !== undefined));
}

function wholeError(
  typed: number | string,
  { min, max }: { min: number; max: number },
): string | undefined {
  const value = Number(typed);
  if (typed === "" || !Number.isInteger(value)) return "Enter a whole number";
  if (value < min) return `Enter ${min.toLocaleString("en")} or more`;
  if (value > max) return `Enter ${max.toLocaleString("en")} or less`;
  return undefined;
}

function rateError(draft: BenchmarkDraft, walBytes: number): string | undefined {
  const rate = rateOf(draft.mebibytesPerSecond);
  if (draft.mebibytesPerSecond === "" || !(rate > 0)) return "Enter a number above 0";
  const max = benchmarkRateMax(walBytes);
  if (rate > max) return `Enter ${max / MIB} or less`;
  if (rate < Number(draft.recordBytes)) return "Enter at least one record per second";
  const total = bytesWritten(draft) ?? 0;
  if (total <= BENCHMARK_BYTES_MAX) return undefined;
  return `This writes ${bytes(total)}; a benchmark writes at most ${bytes(BENCHMARK_BYTES_MAX)}`;
}

/** What the API is asked. */
export function requestOf(clusterId: string, draft: BenchmarkDraft) {
  return {
    cluster_id: clusterId,
    workload: draft.workload,
    duration_seconds: Number(draft.seconds),
    record_size_bytes: Number(draft.recordBytes),
    bytes_per_second: rateOf(draft.mebibytesPerSecond),
    partitions: Number(draft.partitions),
  };
}
