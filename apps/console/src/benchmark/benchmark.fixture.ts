/** Benchmarks as the API answers them, for tests. */
import type { BenchmarkDetail } from "@millrace/contract";
import { TUNING_KNOBS } from "@millrace/domain";

const MIB = 1024 ** 2;

/** One that is done, with a report. */
export function benchmark(change: Partial<BenchmarkDetail> = {}): BenchmarkDetail {
  const values = Object.fromEntries(TUNING_KNOBS.map((knob) => [knob, 64 * MIB]));
  return {
    id: "bmk_a",
    cluster_id: "clu_test",
    operation_id: "op_test",
    phase: "SUCCEEDED",
    error: null,
    workload: "produce",
    duration_seconds: 30,
    record_size_bytes: 1_024,
    bytes_per_second: 16 * MIB,
    partitions: 4,
    size: "dev",
    created_by: { kind: "user", id: "usr_test", name: "ada@example.com" },
    created_at: "2026-11-22T10:00:00.000Z",
    started_at: "2026-11-22T10:00:00.000Z",
    ended_at: "2026-11-22T10:00:40.000Z",
    tuning: {
      version: 1,
      values: values as BenchmarkDetail["tuning"]["values"],
      changes: [],
      changed_during_run: false,
    },
    report: report(4),
    samples: [],
    ...change,
  };
}

/** What was produced at 16 MiB/s, with this p99. */
export function report(p99: number): NonNullable<BenchmarkDetail["report"]> {
  return {
    duration_seconds: 25,
    produced: {
      records: 409_600,
      bytes: 400 * MIB,
      records_per_second: 16_384,
      bytes_per_second: 16 * MIB,
      errors: 0,
      latency_ms: { p50: 1, p95: 2, p99, p999: 2 * p99, max: 3 * p99 },
    },
    consumed: null,
    end_to_end_latency_ms: null,
    catch_up: null,
    unsent_records: 0,
    kept_up: true,
  };
}
