/** A benchmark's parameters and figures as text. */
import type { Benchmark } from "@millrace/contract";
import { BENCHMARK_UNSENT_SHARE_MIN, type BenchmarkWorkload } from "@millrace/domain";
import { byteRate, bytes, count, latency } from "../format/quantity.ts";

export const WORKLOADS: Record<BenchmarkWorkload, { title: string; text: string }> = {
  produce: { title: "Produce", text: "Producers write records at a fixed rate." },
  end_to_end: {
    title: "End to end",
    text: "Consumers read records as they are written. Measures the time from produce to consume.",
  },
  catch_up: {
    title: "Catch-up",
    text: "Writes a backlog for half of the time, then reads it from the beginning while producers go on.",
  },
};

/** `16 MiB/s · 1 KiB records · 4 partitions · 30 s`. */
export function loadText(
  benchmark: Pick<
    Benchmark,
    "bytes_per_second" | "record_size_bytes" | "partitions" | "duration_seconds"
  >,
): string {
  const { bytes_per_second, record_size_bytes, partitions, duration_seconds } = benchmark;
  return [
    byteRate(bytes_per_second),
    `${bytes(record_size_bytes)} records`,
    partitions === 1 ? "1 partition" : `${partitions} partitions`,
    `${duration_seconds} s`,
  ].join(" · ");
}

export function isDone({ phase }: Pick<Benchmark, "phase">): boolean {
  return phase === "SUCCEEDED" || phase === "FAILED" || phase === "CANCELLED";
}

/** Who ran it. The name of a key does not say that it is one. */
export function authorText({ created_by: { kind, name } }: Pick<Benchmark, "created_by">): string {
  return kind === "api_key" ? `API key “${name}”` : name;
}

/** One figure of a report. */
export interface Figure {
  name: string;
  value: number;
  format: (value: number) => string;
  /** Whether more of it is better. */
  higherIsBetter: boolean;
}

const rate = { format: byteRate, higherIsBetter: true };
const time = { format: latency, higherIsBetter: false };

/** Of a report that did not keep up with its rate. */
export const BEHIND_TEXT =
  "The cluster or the client did not keep up: the latencies include waiting in the client.";

type Latency = NonNullable<Benchmark["report"]>["end_to_end_latency_ms"];

/** The figures of a report, the main ones first; none before there is one. */
export function figuresOf({ report, workload }: Pick<Benchmark, "report" | "workload">): Figure[] {
  if (report === null) return [];
  const { produced, consumed, end_to_end_latency_ms: endToEnd, catch_up: catchUp } = report;
  return [
    ...(produced ? [{ name: "Produced", value: produced.bytes_per_second, ...rate }] : []),
    ...(consumed && !catchUp
      ? [{ name: "Consumed", value: consumed.bytes_per_second, ...rate }]
      : []),
    ...(catchUp ? catchUpFigures(catchUp) : latencyFigures("Produce", produced?.latency_ms)),
    // Of a backlog it tells how old the backlog was.
    ...(workload === "end_to_end" ? latencyFigures("End to end", endToEnd) : []),
    ...faultsOf(report),
  ];
}

function latencyFigures(name: string, values: Latency | undefined): Figure[] {
  if (!values) return [];
  return [
    { name: `${name} p50`, value: values.p50, ...time },
    { name: `${name} p99`, value: values.p99, ...time },
    { name: `${name} p99.9`, value: values.p999, ...time },
    { name: `${name} max`, value: values.max, ...time },
  ];
}

/** How fast the backlog was read, and what that cost the producers. */
function catchUpFigures(
  catchUp: NonNullable<NonNullable<Benchmark["report"]>["catch_up"]>,
): Figure[] {
  const { produce_latency_before_ms: before, produce_latency_during_ms: during } = catchUp;
  return [
    { name: "Backlog read", value: catchUp.bytes_per_second, ...rate },
    {
      name: catchUp.complete ? "Time to catch up" : "Not caught up after",
      value: catchUp.seconds * 1_000,
      ...time,
    },
    ...(before ? [{ name: "Produce p99 before", value: before.p99, ...time }] : []),
    ...(during ? [{ name: "Produce p99 during catch-up", value: during.p99, ...time }] : []),
  ];
}

function faultsOf({ produced, consumed, unsent_records }: NonNullable<Benchmark["report"]>) {
  const errors = (produced?.errors ?? 0) + (consumed?.errors ?? 0);
  const lower = { format: count, higherIsBetter: false };
  const unsent = unsent_records > BENCHMARK_UNSENT_SHARE_MIN * (produced?.records ?? 0);
  return [
    ...(errors > 0 ? [{ name: "Errors", value: errors, ...lower }] : []),
    ...(unsent ? [{ name: "Not sent in time", value: unsent_records, ...lower }] : []),
  ];
}

/** The p99 that the workload is about: end to end where consumers keep up, else of producers. */
export function mainLatency({
  report,
  workload,
}: Pick<Benchmark, "report" | "workload">): number | undefined {
  const produced = report?.produced?.latency_ms;
  const values = workload === "end_to_end" ? report?.end_to_end_latency_ms : produced;
  return values?.p99;
}

/** `+12 %`, from the first to the second; undefined where there is nothing to compare. */
export function changeText(from: number, to: number): string | undefined {
  if (from === 0) return undefined;
  const percent = Math.round(((to - from) / from) * 100);
  if (percent === 0) return "±0 %";
  return percent > 0 ? `+${percent} %` : `−${-percent} %`;
}
