"use client";

import { Alert, Card, SimpleGrid, Stack, Text } from "@mantine/core";
import type { Cluster, MetricSeries } from "@millrace/contract";
import { IconPlayerPause } from "@tabler/icons-react";
import { useState } from "react";
import { CURRENT_MS, latestMoment, pointsOf, valueAt } from "../charts/chart-data.ts";
import { useChartRange } from "../charts/chart-range.ts";
import { ChartToolbar } from "../charts/chart-toolbar.tsx";
import { type MetricChartName, MetricCharts } from "../charts/metric-charts.tsx";
import { SpanPicker } from "../charts/span-picker.tsx";
import { byteRate, count, latency } from "../format/quantity.ts";
import { exactMoment, moment } from "../format/time.ts";
import { BootstrapAddress } from "./bootstrap-address.tsx";
import { hasLiveFigures, pausedSince } from "./broker-state.ts";
import { useCluster, useMetrics } from "./live.ts";

/** What the tiles show, whatever span the charts show: the newest of these steps that is current. */
const NOW = { minutes: 1, stepSeconds: 5 };
const TILE_WINDOW = `last ${CURRENT_MS / 1_000} s`;

/** What the charts show until another span is picked. */
const MINUTES = 5;
const CHARTS: readonly MetricChartName[] = ["throughput", "produceLatency", "fetchLatency", "lag"];
type Endpoint = Cluster["status"]["endpoints"][number];

/** Throughput, latencies and lag of one cluster, live. */
export function ClusterOverview({ clusterId }: { clusterId: string }) {
  const [minutes, setMinutes] = useState(MINUTES);
  const [range, setRange] = useChartRange();
  const { data: cluster } = useCluster(clusterId);
  const now = useMetrics(clusterId, NOW.minutes, NOW.stepSeconds);
  const paused = cluster && pausedSince(cluster);
  return (
    <Stack gap="md">
      <Endpoints endpoints={cluster?.status.endpoints ?? []} />
      {paused !== undefined ? (
        <PausedSince since={paused} />
      ) : (
        <Tiles
          series={cluster && hasLiveFigures(cluster) ? now.data?.series : undefined}
          newestAt={now.data?.newest_at}
        />
      )}
      <ChartToolbar clusterId={clusterId} minutes={minutes}>
        <SpanPicker
          minutes={range ? undefined : minutes}
          onPick={(picked) => {
            setMinutes(picked);
            if (range) setRange(undefined);
          }}
        />
      </ChartToolbar>
      <MetricCharts clusterId={clusterId} charts={CHARTS} minutes={minutes} />
    </Stack>
  );
}

/** In place of current values, of which a paused cluster has none. */
export function PausedSince({ since }: { since: string }) {
  return (
    <Alert
      color="gray"
      icon={<IconPlayerPause size={18} />}
      title={`Paused since ${moment(since)}`}
      role="status"
    >
      No broker runs, so there are no current values. Resume the cluster to see them.
    </Alert>
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

/**
 * Current values, all of one moment: where there were no requests, there is a rate and no latency. A dash where nothing was
 * measured in the last seconds, or the broker is down.
 */
export function Tiles({
  series,
  newestAt,
}: {
  series: MetricSeries[] | undefined;
  /** Time of the last reading, in milliseconds since the epoch. */
  newestAt?: number | null | undefined;
}) {
  // Rates and latencies come from one reading; where that is, there is a rate.
  const moment = latestMoment(pointsOf(series, "bytes_in_rate"));
  const now = (name: MetricSeries["name"], format: (value: number) => string) => {
    const value = valueAt(pointsOf(series, name), moment);
    return value === undefined ? "–" : format(value);
  };
  return (
    <Stack gap="xs">
      {moment === undefined && newestAt && (
        <Text fz="sm" className="quiet">
          No data since {exactMoment(new Date(newestAt).toISOString())}
        </Text>
      )}
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }}>
        <Tile label="In" value={now("bytes_in_rate", byteRate)} />
        <Tile label="Out" value={now("bytes_out_rate", byteRate)} />
        <Tile label="Records in" value={now("records_in_rate", (value) => `${count(value)}/s`)} />
        <Tile label="Produce p99" value={now("produce_latency_p99", latency)} />
        <Tile label="Fetch p99" value={now("fetch_latency_p99", latency)} />
        <Tile label="Lag of active groups" value={now("consumer_lag", count)} />
      </SimpleGrid>
    </Stack>
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
      <Text fz="xs" className="quiet">
        {TILE_WINDOW}
      </Text>
    </Card>
  );
}
