"use client";

import { SimpleGrid } from "@mantine/core";
import type { MetricSeries } from "@millrace/contract";
import { byteRate, count, latency, share, times } from "../format/quantity.ts";
import { pointsOf } from "./chart-data.ts";
import { useChartMarkers } from "./chart-markers.ts";
import { metricColor } from "./metric-colors.ts";
import { TimeChart } from "./time-chart.tsx";
import { useChartMetrics } from "./use-chart-metrics.ts";

interface MetricChart {
  title: string;
  note?: string;
  format: (value: number) => string;
  lines: readonly (readonly [label: string, name: MetricSeries["name"]])[];
}

/** The broker does not know `auto.offset.reset`, where a group without a commit begins. */
export const UNCOMMITTED_LAG =
  "Until a group commits an offset, its lag counts from the start of the log.";

/** Every chart of a cluster, whichever pages show it. */
const METRIC_CHARTS = {
  throughput: {
    title: "Throughput",
    format: byteRate,
    lines: [
      ["In", "bytes_in_rate"],
      ["Out", "bytes_out_rate"],
    ],
  },
  produceLatency: {
    title: "Produce latency",
    format: latency,
    lines: [
      ["p50", "produce_latency_p50"],
      ["p99", "produce_latency_p99"],
    ],
  },
  fetchLatency: {
    title: "Fetch latency",
    format: latency,
    lines: [
      ["p50", "fetch_latency_p50"],
      ["p99", "fetch_latency_p99"],
    ],
  },
  lag: {
    title: "Consumer lag of active groups",
    note: UNCOMMITTED_LAG,
    format: count,
    lines: [["Records", "consumer_lag"]],
  },
  catchUp: {
    title: "Catch-up reads and producers",
    format: byteRate,
    lines: [
      ["Catch-up", "catch_up_read_rate"],
      ["Producers", "bytes_in_rate"],
    ],
  },
  waiting: {
    title: "Requests waiting for the network",
    format: count,
    lines: [["Waiting", "network_waiting"]],
  },
  tierRates: {
    title: "Network by tier",
    format: byteRate,
    lines: [
      ["WAL uploads", "network_rate_wal_upload"],
      ["Tail reads", "network_rate_tail_read"],
      ["Catch-up reads", "network_rate_catch_up_miss"],
      ["Prefetch", "network_rate_prefetch"],
      ["Compaction", "network_rate_compaction"],
    ],
  },
  tierWaiting: {
    title: "Requests waiting by tier",
    format: count,
    lines: [
      ["Tail reads", "network_waiting_tail_read"],
      ["Catch-up reads", "network_waiting_catch_up_miss"],
      ["Prefetch", "network_waiting_prefetch"],
      ["Compaction", "network_waiting_compaction"],
    ],
  },
  cacheHits: {
    title: "Block cache hit ratio",
    format: share,
    lines: [["Hits", "cache_hit_ratio"]],
  },
  fetchedPerDelivered: {
    title: "Fetched per byte delivered",
    format: times,
    lines: [["Fetched", "cache_fetched_per_delivered"]],
  },
} as const satisfies Record<string, MetricChart>;
export type MetricChartName = keyof typeof METRIC_CHARTS;

interface MetricChartsProps {
  clusterId: string;
  charts: readonly MetricChartName[];
  /** What the charts show while they are live. */
  minutes: number;
}

/** Charts of a cluster side by side, with one range, one cursor and one set of markers. `ChartToolbar` belongs above them. */
export function MetricCharts({ clusterId, charts, minutes }: MetricChartsProps) {
  const { data, span, setRange } = useChartMetrics(clusterId, minutes);
  const markers = useChartMarkers(clusterId);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      {charts.map((name) => {
        const { title, note, format, lines }: MetricChart = METRIC_CHARTS[name];
        return (
          <TimeChart
            key={name}
            title={title}
            note={note}
            format={format}
            span={span}
            markers={markers}
            onZoom={setRange}
            lines={lines.map(([label, metric]) => ({
              label,
              color: metricColor(metric),
              points: pointsOf(data?.series, metric),
            }))}
          />
        );
      })}
    </SimpleGrid>
  );
}
