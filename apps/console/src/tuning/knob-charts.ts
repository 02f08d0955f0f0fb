import type { TuningKnob } from "@millrace/domain";
import type { MetricChartName } from "../charts/metric-charts.tsx";

/** The charts that show what a change of a knob does. */
const KNOB_CHARTS: Record<TuningKnob, readonly MetricChartName[]> = {
  block_cache_bytes: ["cacheHits", "catchUp"],
  prefetch_max_bytes: ["catchUp", "fetchedPerDelivered"],
  ingress_baseline_bytes_per_second: ["throughput", "waiting"],
  egress_baseline_bytes_per_second: ["throughput", "waiting", "produceLatency", "catchUp"],
  wal_cache_bytes: ["fetchLatency"],
  upload_threshold_bytes: ["produceLatency"],
};

/** The charts of several knobs, each once. */
export function chartsOf(knobs: readonly TuningKnob[]): MetricChartName[] {
  return [...new Set(knobs.flatMap((knob) => KNOB_CHARTS[knob]))];
}
