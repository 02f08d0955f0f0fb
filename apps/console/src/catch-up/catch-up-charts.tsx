"use client";

import { SimpleGrid } from "@mantine/core";
import type { MetricSeries } from "@millrace/contract";
import { type ChartLine, pointsOf } from "../charts/chart-data.ts";
import { TimeChart } from "../charts/time-chart.tsx";
import { useMetrics } from "../cluster/live.ts";
import { byteRate, count, share, times } from "../format/quantity.ts";

const MINUTES = 15;
const STEP_SECONDS = 5;

/** The figures over the last 15 minutes. */
export function CatchUpCharts({ clusterId }: { clusterId: string }) {
  const { data } = useMetrics(clusterId, MINUTES, STEP_SECONDS);
  const span = data ?? { from: Date.now() - MINUTES * 60_000, to: Date.now() };
  const line = (label: string, name: MetricSeries["name"], color = "in"): ChartLine => ({
    label,
    color: `var(--chart-${color})`,
    points: pointsOf(data?.series, name),
  });
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <TimeChart
        title="Catch-up reads and producers"
        span={span}
        format={byteRate}
        lines={[line("Catch-up", "catch_up_read_rate", "out"), line("Producers", "bytes_in_rate")]}
      />
      <TimeChart
        title="Requests waiting for the network"
        span={span}
        format={count}
        lines={[line("Waiting", "network_waiting")]}
      />
      <TimeChart
        title="Block cache hit ratio"
        span={span}
        format={share}
        lines={[line("Hits", "cache_hit_ratio")]}
      />
      <TimeChart
        title="Fetched per byte delivered"
        span={span}
        format={times}
        lines={[line("Fetched", "cache_fetched_per_delivered")]}
      />
    </SimpleGrid>
  );
}
