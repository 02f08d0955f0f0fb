"use client";

import { MetricCharts } from "../charts/metric-charts.tsx";

const MINUTES = 15;

/** The figures over the last 15 minutes. */
export function CatchUpCharts({ clusterId }: { clusterId: string }) {
  return (
    <MetricCharts
      clusterId={clusterId}
      minutes={MINUTES}
      charts={["catchUp", "waiting", "cacheHits", "fetchedPerDelivered"]}
    />
  );
}
