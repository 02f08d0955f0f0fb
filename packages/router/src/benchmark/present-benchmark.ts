import type { BenchmarkSample as SampleShape, Benchmark as Shape } from "@millrace/contract";
import {
  type Benchmark,
  type BenchmarkFlow,
  type BenchmarkReport,
  type BenchmarkSample,
  keptUp,
} from "@millrace/domain";

export function presentBenchmark(benchmark: Benchmark): Shape {
  const { request, tuning, tuningVersionAtEnd, report, error } = benchmark;
  const { version, values, changes } = tuning;
  return {
    id: benchmark.id,
    cluster_id: benchmark.clusterId,
    operation_id: benchmark.operationId,
    phase: benchmark.phase,
    error: error ? { code: error.code, message: error.message } : null,
    workload: request.workload,
    duration_seconds: request.durationSeconds,
    record_size_bytes: request.recordSizeBytes,
    bytes_per_second: benchmark.bytesPerSecond,
    partitions: request.partitions,
    size: benchmark.size,
    created_by: { ...benchmark.by },
    created_at: benchmark.createdAt.toISOString(),
    started_at: benchmark.startedAt?.toISOString() ?? null,
    ended_at: benchmark.endedAt?.toISOString() ?? null,
    tuning: {
      version,
      values: { ...values },
      changes: changes.map(({ knob, from, to }) => ({ field: knob, from, to })),
      changed_during_run: tuningVersionAtEnd !== undefined && tuningVersionAtEnd !== version,
    },
    report: report
      ? {
          duration_seconds: report.durationSeconds,
          produced: presentFlow(report.produced),
          consumed: presentFlow(report.consumed),
          end_to_end_latency_ms: report.endToEndLatencyMs ?? null,
          catch_up: presentCatchUp(report.catchUp),
          unsent_records: report.unsentRecords,
          kept_up: keptUp(benchmark, report),
        }
      : null,
  };
}

export function presentSample(sample: BenchmarkSample): SampleShape {
  return {
    elapsed_seconds: sample.elapsedSeconds,
    phase: sample.phase,
    produced: presentFlow(sample.produced),
    consumed: presentFlow(sample.consumed),
    lag_records: sample.lagRecords ?? null,
  };
}

function presentCatchUp(
  catchUp: BenchmarkReport["catchUp"],
): NonNullable<Shape["report"]>["catch_up"] {
  if (catchUp === undefined) return null;
  return {
    backlog_bytes: catchUp.backlogBytes,
    seconds: catchUp.seconds,
    bytes_per_second: catchUp.bytesPerSecond,
    complete: catchUp.complete,
    produce_latency_before_ms: catchUp.produceLatencyBeforeMs ?? null,
    produce_latency_during_ms: catchUp.produceLatencyDuringMs ?? null,
  };
}

function presentFlow(flow: BenchmarkFlow | undefined): SampleShape["produced"] {
  if (flow === undefined) return null;
  return {
    records: flow.records,
    bytes: flow.bytes,
    records_per_second: flow.recordsPerSecond,
    bytes_per_second: flow.bytesPerSecond,
    errors: flow.errors,
    latency_ms: flow.latencyMs ?? null,
  };
}
