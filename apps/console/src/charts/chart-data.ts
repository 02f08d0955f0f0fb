/** From the API's series to what the chart draws. Pure, so that it is tested without a canvas. */
import type { MetricSeries } from "@millrace/contract";

/** One line of a chart. */
export interface ChartLine {
  label: string;
  /** A CSS colour or custom property. */
  color: string;
  points: MetricSeries["points"];
}

/** Columns as uPlot wants them: seconds, then one column of values for each line. */
export type Columns = [number[], ...(number | null)[][]];

/** Lines over the union of their moments; null where a line has no point. */
export function columnsOf(lines: readonly ChartLine[]): Columns {
  const moments = [...new Set(lines.flatMap(({ points }) => points.map(([at]) => at)))];
  moments.sort((a, b) => a - b);
  const values = lines.map(({ points }) => {
    const at = new Map(points);
    return moments.map((moment) => at.get(moment) ?? null);
  });
  return [moments.map((moment) => moment / 1_000), ...values];
}

/** Brokers are read every ten seconds at least; what is older than this is not "now". */
export const CURRENT_MS = 20_000;

/**
 * The current value of a line: its last point or, where that is not measured yet, one shortly before.
 * Undefined once nothing has been measured for a while, as when the broker is paused.
 */
export function latest(points: MetricSeries["points"]): number | undefined {
  return valueAt(points, latestMoment(points));
}

/** When the current value of a line was measured. */
export function latestMoment(points: MetricSeries["points"]): number | undefined {
  const [end] = points.at(-1) ?? [0];
  const [at] = points.findLast(([, value]) => value !== null) ?? [];
  return at === undefined || end - at > CURRENT_MS ? undefined : at;
}

export function valueAt(points: MetricSeries["points"], moment: number | undefined) {
  return points.findLast(([at]) => at === moment)?.[1] ?? undefined;
}

/** The points of a series by name; none where the answer does not hold it. */
export function pointsOf(
  series: readonly MetricSeries[] | undefined,
  name: MetricSeries["name"],
): MetricSeries["points"] {
  return series?.find((one) => one.name === name)?.points ?? [];
}

/** One sentence for those who do not see the chart. */
export function summaryOf(lines: readonly ChartLine[], format: (value: number) => string): string {
  return lines
    .map(({ label, points }) => {
      const values = points.flatMap(([, value]) => (value === null ? [] : [value]));
      if (values.length === 0) return `${label}: no data yet`;
      const now = latest(points);
      const current = now === undefined ? "no current data" : `now ${format(now)}`;
      return `${label}: ${current}, between ${format(Math.min(...values))} and ${format(Math.max(...values))}`;
    })
    .join("; ");
}
