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

/** The newest measured value of a line. */
export function latest(points: MetricSeries["points"]): number | undefined {
  return points.findLast(([, value]) => value !== null)?.[1] ?? undefined;
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
      const now = values.at(-1);
      if (now === undefined) return `${label}: nothing measured yet`;
      return `${label}: now ${format(now)}, between ${format(Math.min(...values))} and ${format(Math.max(...values))}`;
    })
    .join("; ");
}
