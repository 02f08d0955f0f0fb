"use client";

import { SimpleGrid } from "@mantine/core";
import type { BenchmarkDetail, BenchmarkSample } from "@millrace/contract";
import type { ChartLine } from "../charts/chart-data.ts";
import { TimeChart } from "../charts/time-chart.tsx";
import { byteRate, count, latency } from "../format/quantity.ts";

type Read = (sample: BenchmarkSample) => number | null | undefined;

/** What was measured over less than this is noise: rates of the first and the last instant. */
const SAMPLE_SECONDS_MIN = 0.5;

/** Samples of whole seconds, so that those of two runs stand at the same moments. */
function bySecond(samples: readonly BenchmarkSample[]): [second: number, BenchmarkSample][] {
  let last = 0;
  return samples.flatMap((sample) => {
    const since = sample.elapsed_seconds - last;
    last = sample.elapsed_seconds;
    return since < SAMPLE_SECONDS_MIN ? [] : [[Math.round(sample.elapsed_seconds), sample]];
  });
}

/** The figure of each second: seconds since the start of the load. */
export function line(
  label: string,
  color: "in" | "out" | "p50" | "p99" | "lag",
  samples: readonly BenchmarkSample[],
  read: Read,
): ChartLine {
  return {
    label,
    color: `var(--chart-${color})`,
    points: bySecond(samples).map(([second, sample]) => [second * 1_000, read(sample) ?? null]),
  };
}

export function spanOf(runs: readonly BenchmarkDetail[]): { from: number; to: number } {
  const ends = runs.map(({ duration_seconds, samples }) =>
    Math.max(duration_seconds, Math.round(samples.at(-1)?.elapsed_seconds ?? 0)),
  );
  return { from: 0, to: Math.max(...ends) * 1_000 };
}

/** Of a latency: end to end where consumers read as records are written, else of producers. */
const p50: Read = ({ produced, consumed }) => latencyOf({ produced, consumed })?.p50;
const p99: Read = ({ produced, consumed }) => latencyOf({ produced, consumed })?.p99;

function latencyOf({ produced, consumed }: Pick<BenchmarkSample, "produced" | "consumed">) {
  return consumed?.latency_ms ?? produced?.latency_ms;
}

/** A run's throughput and latency, as it runs and afterwards. */
export function BenchmarkCharts({ run }: { run: BenchmarkDetail }) {
  const { samples, workload } = run;
  const span = spanOf([run]);
  const produced = line("Produced", "in", samples, (sample) => sample.produced?.bytes_per_second);
  const consumed = line("Consumed", "out", samples, (sample) => sample.consumed?.bytes_per_second);
  const lines = workload === "produce" ? [produced] : [produced, consumed];
  const producedP =
    (p: "p50" | "p99"): Read =>
    ({ produced: flow }) =>
      flow?.latency_ms?.[p];
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <TimeChart elapsed title="Throughput" span={span} format={byteRate} lines={lines} />
      <TimeChart
        elapsed
        title="Produce latency"
        span={span}
        format={latency}
        lines={[
          line("p50", "p50", samples, producedP("p50")),
          line("p99", "p99", samples, producedP("p99")),
        ]}
      />
      {workload === "end_to_end" && (
        <TimeChart
          elapsed
          title="End-to-end latency"
          span={span}
          format={latency}
          lines={[line("p50", "p50", samples, p50), line("p99", "p99", samples, p99)]}
        />
      )}
      {workload !== "produce" && (
        <TimeChart
          elapsed
          title="Records not consumed yet"
          span={span}
          format={count}
          lines={[line("Records", "lag", samples, (sample) => sample.lag_records)]}
        />
      )}
    </SimpleGrid>
  );
}

/** Two runs on one time axis, from the start of each. */
export function OverlaidCharts({
  first,
  second,
}: {
  first: BenchmarkDetail;
  second: BenchmarkDetail;
}) {
  const span = spanOf([first, second]);
  const both = (read: Read) => [
    line("A", "in", first.samples, read),
    line("B", "out", second.samples, read),
  ];
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <TimeChart
        elapsed
        title="Produced"
        span={span}
        format={byteRate}
        lines={both(({ produced }) => produced?.bytes_per_second)}
      />
      <TimeChart
        elapsed
        title="Produce latency p99"
        span={span}
        format={latency}
        lines={both(({ produced }) => produced?.latency_ms?.p99)}
      />
      {[first, second].some(({ workload }) => workload !== "produce") && (
        <>
          <TimeChart
            elapsed
            title="Consumed"
            span={span}
            format={byteRate}
            lines={both(({ consumed }) => consumed?.bytes_per_second)}
          />
          <TimeChart
            elapsed
            title="Records not consumed yet"
            span={span}
            format={count}
            lines={both(({ lag_records }) => lag_records)}
          />
        </>
      )}
    </SimpleGrid>
  );
}
