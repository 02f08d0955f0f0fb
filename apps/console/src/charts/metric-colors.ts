/** One colour for each metric, on every page. globals.css holds the values for light and dark. */
import type { MetricSeries } from "@millrace/contract";

type Color = "in" | "out" | "p50" | "p99" | "lag" | "waiting" | "cache" | "fetched";

const METRIC_COLORS: Record<MetricSeries["name"], Color> = {
  bytes_in_rate: "in",
  records_in_rate: "in",
  bytes_out_rate: "out",
  produce_latency_p50: "p50",
  produce_latency_p99: "p99",
  produce_latency_p999: "fetched",
  fetch_latency_p50: "p50",
  fetch_latency_p99: "p99",
  fetch_latency_p999: "fetched",
  consumer_lag: "lag",
  connections: "waiting",
  network_waiting: "waiting",
  network_rate_wal_upload: "in",
  network_rate_tail_read: "out",
  network_rate_catch_up_miss: "fetched",
  network_rate_prefetch: "cache",
  network_rate_compaction: "lag",
  network_waiting_tail_read: "out",
  network_waiting_catch_up_miss: "fetched",
  network_waiting_prefetch: "cache",
  network_waiting_compaction: "lag",
  cache_hit_ratio: "cache",
  cache_fetched_per_delivered: "fetched",
  catch_up_read_rate: "fetched",
};

/** The CSS custom property of a metric's colour. */
export function metricColor(name: MetricSeries["name"]): string {
  return `var(--chart-${METRIC_COLORS[name]})`;
}
