/** What `millrace perf --progress json` prints: a line for each second, then one with the report. */
import {
  BENCHMARK_SAMPLE_PHASES,
  type BenchmarkCatchUp,
  type BenchmarkFlow,
  type BenchmarkReport,
  type BenchmarkSample,
} from "@millrace/domain";
import { z } from "zod";

const latency = z.object({
  p50: z.number(),
  p95: z.number(),
  p99: z.number(),
  p999: z.number(),
  max: z.number(),
});

const flow = z
  .object({
    records: z.number(),
    bytes: z.number(),
    records_per_second: z.number(),
    bytes_per_second: z.number(),
    errors: z.number().default(0),
    lag_records: z.number().nullish(),
    latency_ms: latency.nullish(),
  })
  .nullish();

const progress = z.object({
  kind: z.literal("progress"),
  elapsed_seconds: z.number(),
  phase: z.enum(BENCHMARK_SAMPLE_PHASES),
  produced: flow,
  consumed: flow,
});

const report = z.object({
  kind: z.literal("report"),
  duration_seconds: z.number(),
  produced: flow,
  consumed: flow,
  end_to_end: z.object({ latency_ms: latency.nullish() }).nullish(),
  catch_up: z
    .object({
      backlog_bytes: z.number(),
      seconds: z.number(),
      bytes_per_second: z.number(),
      complete: z.boolean(),
      produce_latency_before_ms: latency.nullish(),
      produce_latency_during_ms: latency.nullish(),
    })
    .nullish(),
  client: z.object({ unsent_records: z.number().default(0) }).default({ unsent_records: 0 }),
  ended_by: z.string().nullish(),
  failure: z.string().nullish(),
});

type PerfLine =
  | { readonly kind: "sample"; readonly sample: BenchmarkSample }
  | {
      readonly kind: "report";
      readonly report: BenchmarkReport;
      /** Why the load failed, or ended before its time; undefined where it did neither. */
      readonly failure: string | undefined;
    }
  /** Text, or the output of another version. */
  | { readonly kind: "unknown"; readonly why: string };

/** Reads one line of the program's standard output. */
export function readPerfLine(line: Record<string, unknown> | string): PerfLine {
  if (typeof line === "string") return { kind: "unknown", why: line };
  const parsed = z.discriminatedUnion("kind", [progress, report]).safeParse(line);
  if (!parsed.success) return { kind: "unknown", why: z.prettifyError(parsed.error) };
  const { data } = parsed;
  const flows = { produced: flowOf(data.produced), consumed: flowOf(data.consumed) };
  if (data.kind === "report") {
    const report: BenchmarkReport = {
      durationSeconds: data.duration_seconds,
      ...flows,
      endToEndLatencyMs: data.end_to_end?.latency_ms ?? undefined,
      catchUp: catchUpOf(data.catch_up),
      unsentRecords: data.client.unsent_records,
    };
    const failure = data.failure ?? (data.ended_by === "signal" ? "ended by a signal" : undefined);
    return { kind: "report", report, failure };
  }
  const { elapsed_seconds: elapsedSeconds, phase } = data;
  const lagRecords = data.consumed?.lag_records ?? undefined;
  return { kind: "sample", sample: { elapsedSeconds, phase, ...flows, lagRecords } };
}

function catchUpOf(value: z.output<typeof report>["catch_up"]): BenchmarkCatchUp | undefined {
  if (value == null) return undefined;
  return {
    backlogBytes: value.backlog_bytes,
    seconds: value.seconds,
    bytesPerSecond: value.bytes_per_second,
    complete: value.complete,
    produceLatencyBeforeMs: value.produce_latency_before_ms ?? undefined,
    produceLatencyDuringMs: value.produce_latency_during_ms ?? undefined,
  };
}

function flowOf(value: z.output<typeof flow>): BenchmarkFlow | undefined {
  if (value == null) return undefined;
  return {
    records: value.records,
    bytes: value.bytes,
    recordsPerSecond: value.records_per_second,
    bytesPerSecond: value.bytes_per_second,
    errors: value.errors,
    latencyMs: value.latency_ms ?? undefined,
  };
}
