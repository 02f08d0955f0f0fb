import type { Budget } from "./budget.ts";
import { Evaluator } from "./evaluator.ts";
import type { Expression } from "./expression.ts";
import { LabelSet } from "./label-set.ts";
import { PromqlError } from "./promql-error.ts";
import { countUntil, type SeriesBySelector, type Vector } from "./series.ts";

/** Numbers of one answer: some 20 MB of JSON. */
export const ANSWER_POINTS_MAX = 500_000;
/** Series of one answer: nobody tells more lines of a chart apart, and a table is read in pages. */
export const ANSWER_SERIES_MAX = 5_000;

/** A time in seconds, and a number as Prometheus writes it in JSON. */
type Point = readonly [seconds: number, value: string];

export type QueryResult =
  | { readonly resultType: "scalar" | "string"; readonly result: Point }
  | {
      readonly resultType: "vector";
      readonly result: readonly { readonly metric: LabelSet; readonly value: Point }[];
    }
  | {
      readonly resultType: "matrix";
      readonly result: readonly { readonly metric: LabelSet; readonly values: readonly Point[] }[];
    };

interface Inputs {
  readonly series: SeriesBySelector;
  readonly budget: Budget;
}

/** The value of an expression at one time. Throws `execution`. */
export function evaluateAt(
  expression: Expression,
  { series, budget }: Inputs,
  timeMs: number,
): QueryResult {
  const evaluator = new Evaluator(series, budget);
  const point = (value: number): Point => [timeMs / 1_000, numberText(value)];
  if (expression.kind === "string") {
    return { resultType: "string", result: [timeMs / 1_000, expression.value] };
  }
  if (expression.type === "scalar") {
    return { resultType: "scalar", result: point(evaluator.scalar(expression, timeMs)) };
  }
  if (expression.kind === "selector" && expression.rangeMs !== undefined) {
    const endMs = timeMs - expression.offsetMs;
    const beginMs = endMs - expression.rangeMs;
    const result = (series.get(expression)?.series ?? []).flatMap(({ labels, timesMs, values }) => {
      const [from, to] = [countUntil(timesMs, beginMs), countUntil(timesMs, endMs)];
      const points = timesMs
        .slice(from, to)
        .map(
          (atMs, index): Point => [atMs / 1_000, numberText(values[from + index] ?? Number.NaN)],
        );
      return points.length === 0 ? [] : [{ metric: labels, values: points }];
    });
    assertSmall(
      result.length,
      result.reduce((sum, each) => sum + each.values.length, 0),
    );
    return { resultType: "matrix", result };
  }
  const vector = distinct(evaluator.vector(expression, timeMs));
  assertSmall(vector.length, vector.length);
  const result = vector.map(({ labels, value }) => ({ metric: labels, value: point(value) }));
  return { resultType: "vector", result };
}

export interface Steps {
  readonly startMs: number;
  readonly endMs: number;
  readonly stepMs: number;
}

/** The values of an expression at each step, its first and last time included. Throws `execution`, `timeout`. */
export async function evaluateOver(
  expression: Expression,
  { series, budget }: Inputs,
  { startMs, endMs, stepMs }: Steps,
): Promise<QueryResult> {
  if (expression.type !== "scalar" && expression.type !== "vector") {
    throw new PromqlError(
      "bad_data",
      `invalid expression type "${expression.type}" for range query, must be scalar or instant vector`,
    );
  }
  const evaluator = new Evaluator(series, budget);
  const lines = new Map<string, { metric: LabelSet; values: Point[] }>();
  let points = 0;
  for (let timeMs = startMs; timeMs <= endMs; timeMs += stepMs) {
    const vector: Vector =
      expression.type === "scalar"
        ? [{ labels: LabelSet.EMPTY, value: evaluator.scalar(expression, timeMs) }]
        : distinct(evaluator.vector(expression, timeMs));
    points += vector.length;
    for (const { labels, value } of vector) {
      const point: Point = [timeMs / 1_000, numberText(value)];
      const line = lines.get(labels.key);
      if (line) line.values.push(point);
      else lines.set(labels.key, { metric: labels, values: [point] });
    }
    assertSmall(lines.size, points);
    budget.takeSamples(0);
    await budget.pause();
  }
  const result = [...lines.values()].sort((a, b) => (a.metric.key < b.metric.key ? -1 : 1));
  return { resultType: "matrix", result };
}

/** Functions drop the metric's name: two metrics may then have the same labels. */
function distinct(vector: Vector): Vector {
  const keys = new Set(vector.map(({ labels }) => labels.key));
  if (keys.size === vector.length) return vector;
  throw new PromqlError("execution", "vector cannot contain metrics with the same labelset");
}

function assertSmall(series: number, points: number): void {
  if (series > ANSWER_SERIES_MAX) {
    throw new PromqlError(
      "execution",
      `the answer has more than ${ANSWER_SERIES_MAX} series: aggregate them`,
    );
  }
  if (points > ANSWER_POINTS_MAX) {
    throw new PromqlError(
      "execution",
      `the answer has more than ${ANSWER_POINTS_MAX} points: choose a larger step or fewer series`,
    );
  }
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
