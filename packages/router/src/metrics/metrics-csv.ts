import type { MetricSeries } from "@millrace/domain";

/** RFC 4180. All series have the same times; nothing here needs quotes. */
export function metricsCsv(series: readonly MetricSeries[]): string {
  const header = ["time", ...series.map(({ name, unit }) => `${name} (${unit})`)];
  const times = series[0]?.points.map(([timeMs]) => timeMs) ?? [];
  const lines = times.map((timeMs, index) => [
    new Date(timeMs).toISOString(),
    ...series.map(({ points }) => points[index]?.[1] ?? ""),
  ]);
  return [header, ...lines].map((fields) => `${fields.join(",")}\r\n`).join("");
}
