/** A benchmark's parameters and figures as text. */
import type { Benchmark } from "@millrace/contract";
import type { BenchmarkWorkload } from "@millrace/domain";
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

/** The figures of a report, the main ones first; none before there is one. */
export function figuresOf({ report }: Pick<Benchmark, "report">): Figure[] {
  if (report === null) return [];
  const { produced, consumed, end_to_end_latency_ms: endToEnd, catch_up: catchUp } = report;
  const latencies = (name: string, values: typeof endToEnd): Figure[] =>
    values === null
      ? []
      : [
          { name: `${name} p50`, value: values.p50, ...time },
          { name: `${name} p99`, value: values.p99, ...time },
          { name: `${name} p99.9`, value: values.p999, ...time },
          { name: `${name} max`, value: values.max, ...time },
        ];
  return [
    ...(produced ? [{ name: "Produced", value: produced.bytes_per_second, ...rate }] : []),
    ...(catchUp
      ? [{ name: "Backlog read", value: catchUp.bytes_per_second, ...rate }]
      : consumed
        ? [{ name: "Consumed", value: consumed.bytes_per_second, ...rate }]
        : []),
    ...(catchUp ? [{ name: "Time to catch up", value: catchUp.seconds * 1_000, ...time }] : []),
    ...latencies("Produce", produced?.latency_ms ?? null),
    ...latencies("End to end", endToEnd),
    ...errorsOf(report),
  ];
}

function errorsOf({ produced, consumed, unsent_records }: NonNullable<Benchmark["report"]>) {
  const errors = (produced?.errors ?? 0) + (consumed?.errors ?? 0);
  const lower = { format: count, higherIsBetter: false };
  return [
    ...(errors > 0 ? [{ name: "Errors", value: errors, ...lower }] : []),
    ...(unsent_records > 0 ? [{ name: "Not sent in time", value: unsent_records, ...lower }] : []),
  ];
}

/** The latency that the workload is about: end to end where consumers read, else of producers. */
export function mainLatency({ report }: Pick<Benchmark, "report">): number | undefined {
  const values = report?.end_to_end_latency_ms ?? report?.produced?.latency_ms;
  return values?.p99;
}

/** `+12 %`, from the first to the second; undefined where there is nothing to compare. */
export function changeText(from: number, to: number): string | undefined {
  if (from === 0) return undefined;
  const percent = Math.round(((to - from) / from) * 100);
  if (percent === 0) return "±0 %";
  return percent > 0 ? `+${percent} %` : `−${-percent} %`;
}
