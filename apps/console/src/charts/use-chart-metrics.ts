import { useMetrics } from "../cluster/live.ts";
import { stepOf, useChartRange } from "./chart-range.ts";

/**
 * What all charts of a page show: the range of the URL or, without one, the last `minutes`. Each part of the page may ask;
 * the same range is read once.
 */
export function useChartMetrics(clusterId: string, minutes: number) {
  const [range, setRange] = useChartRange();
  const live = { from: Date.now() - minutes * 60_000, to: Date.now() };
  const { data, error } = useMetrics(clusterId, minutes, stepOf(range ?? live), { range });
  return { range, setRange, data, error, span: range ?? data ?? live };
}
