"use client";

import { Card, Group, SegmentedControl, SimpleGrid, Stack, Text } from "@mantine/core";
import type { Cluster, MetricSeries } from "@millrace/contract";
import { useState } from "react";
import { type ChartLine, latest, pointsOf } from "../charts/chart-data.ts";
import { TimeChart } from "../charts/time-chart.tsx";
import { byteRate, count, latency } from "../format/quantity.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { BootstrapAddress } from "./bootstrap-address.tsx";
import { hasLiveFigures } from "./broker-state.ts";
import { useCluster, useMetrics } from "./live.ts";

/** What the tiles show as "now", whatever span the charts show. */
const NOW = { minutes: 1, stepSeconds: 5 };

/** Shown spans in minutes, each with the step that gives about a hundred and eighty points. */
const SPANS = {
  "5": { label: "5 min", step: 2 },
  "15": { label: "15 min", step: 5 },
  "60": { label: "1 h", step: 20 },
  "360": { label: "6 h", step: 120 },
} as const;
type Span = keyof typeof SPANS;
type Endpoint = Cluster["status"]["endpoints"][number];

/** Throughput, latencies and lag of one cluster, live. */
export function ClusterOverview({ clusterId }: { clusterId: string }) {
  const [span, setSpan] = useState<Span>("5");
  const { data: cluster } = useCluster(clusterId);
  const { data, error } = useMetrics(clusterId, Number(span), SPANS[span].step);
  const now = useMetrics(clusterId, NOW.minutes, NOW.stepSeconds);
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-end">
        <Endpoints endpoints={cluster?.status.endpoints ?? []} />
        <SegmentedControl
          aria-label="Time range"
          value={span}
          onChange={(value) => setSpan(value as Span)}
          data={Object.entries(SPANS).map(([value, { label }]) => ({ value, label }))}
        />
      </Group>
      {error && <ProblemAlert error={error} title="Cannot load the metrics" />}
      <Tiles series={cluster && hasLiveFigures(cluster) ? now.data?.series : undefined} />
      <Charts
        series={data?.series}
        span={data ?? { from: Date.now() - Number(span) * 60_000, to: Date.now() }}
      />
    </Stack>
  );
}

const KINDS: Record<Endpoint["protocol"], string> = {
  PLAINTEXT: "without TLS",
  SASL_SSL: "with TLS and password",
};

/** Where clients connect, and how. */
export function Endpoints({ endpoints }: { endpoints: readonly Endpoint[] }) {
  return (
    <Stack gap={4}>
      {endpoints.map(({ name, protocol, bootstrap_servers }) => (
        <BootstrapAddress key={name} address={bootstrap_servers} kind={KINDS[protocol]} />
      ))}
    </Stack>
  );
}

/** Current values; a dash where nothing was measured in the last seconds, or the broker is down. */
export function Tiles({ series }: { series: MetricSeries[] | undefined }) {
  const now = (name: MetricSeries["name"], format: (value: number) => string) => {
    const value = latest(pointsOf(series, name));
    return value === undefined ? "–" : format(value);
  };
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }}>
      <Tile label="In" value={now("bytes_in_rate", byteRate)} />
      <Tile label="Out" value={now("bytes_out_rate", byteRate)} />
      <Tile label="Records in" value={now("records_in_rate", (value) => `${count(value)}/s`)} />
      <Tile label="Produce p99" value={now("produce_latency_p99", latency)} />
      <Tile label="Fetch p99" value={now("fetch_latency_p99", latency)} />
      <Tile label="Lag of active groups" value={now("consumer_lag", count)} />
    </SimpleGrid>
  );
}

function Tile({ label, value }: { label: string; value: string }) {
  return (
    <Card padding="md">
      <Text fz="xs" className="quiet">
        {label}
      </Text>
      <Text fz="xl" fw={650} className="number" data-tile={label}>
        {value}
      </Text>
    </Card>
  );
}

function Charts(props: { series: MetricSeries[] | undefined; span: { from: number; to: number } }) {
  const line = (label: string, name: MetricSeries["name"], color: string): ChartLine => ({
    label,
    color,
    points: pointsOf(props.series, name),
  });
  const { span } = props;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <TimeChart
        title="Throughput"
        span={span}
        format={byteRate}
        lines={[
          line("In", "bytes_in_rate", "var(--chart-in)"),
          line("Out", "bytes_out_rate", "var(--chart-out)"),
        ]}
      />
      <TimeChart
        title="Produce latency"
        span={span}
        format={latency}
        lines={[
          line("p50", "produce_latency_p50", "var(--chart-in)"),
          line("p99", "produce_latency_p99", "var(--chart-out)"),
        ]}
      />
      <TimeChart
        title="Fetch latency"
        span={span}
        format={latency}
        lines={[
          line("p50", "fetch_latency_p50", "var(--chart-in)"),
          line("p99", "fetch_latency_p99", "var(--chart-out)"),
        ]}
      />
      <TimeChart
        title="Consumer lag of active groups"
        span={span}
        format={count}
        lines={[line("Records", "consumer_lag", "var(--chart-in)")]}
      />
    </SimpleGrid>
  );
}
