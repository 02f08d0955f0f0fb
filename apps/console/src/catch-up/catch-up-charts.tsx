"use client";

import { ChartToolbar } from "../charts/chart-toolbar.tsx";
import { type MetricChartName, MetricCharts } from "../charts/metric-charts.tsx";

const MINUTES = 15;
const CHARTS: readonly MetricChartName[] = [
  "catchUp",
  "waiting",
  "tierRates",
  "tierWaiting",
  "cacheHits",
  "fetchedPerDelivered",
];

/** The figures over the last 15 minutes. */
export function CatchUpCharts({ clusterId }: { clusterId: string }) {
  return (
    <>
      <ChartToolbar clusterId={clusterId} minutes={MINUTES} />
      <MetricCharts clusterId={clusterId} minutes={MINUTES} charts={CHARTS} />
    </>
  );
}
