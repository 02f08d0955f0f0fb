import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Budget } from "./budget.ts";
import { evaluateAt, evaluateOver } from "./evaluate.ts";
import { type Expression, selectorsOf } from "./expression.ts";
import { matchesAll } from "./label-matcher.ts";
import { LabelSet } from "./label-set.ts";
import { durationMs } from "./literals.ts";
import { parseQuery } from "./parse.ts";
import type { Series, SeriesBySelector } from "./series.ts";

interface Case {
  readonly expr: string;
  readonly eval_time: string;
  readonly exp_samples: readonly { readonly labels: string; readonly value: number }[];
}

interface Group {
  readonly name: string;
  readonly interval: string;
  readonly input_series: readonly { readonly series: string; readonly values: string }[];
  readonly promql_expr_test: readonly Case[];
}

/** In the form of `promtool test rules`: `npm run check:monitoring` gives the same file to Prometheus. */
const file = new URL("../../test/promql-cases.json", import.meta.url);
const { tests } = JSON.parse(readFileSync(file, "utf8")) as { tests: Group[] };

for (const { name, interval, input_series, promql_expr_test } of tests) {
  describe(name, () => {
    const intervalMs = durationMs(interval) ?? 0;
    const all = input_series.map(({ series, values }) => seriesOf(series, values, intervalMs));
    test.each(promql_expr_test)("$expr at $eval_time", async ({ expr, eval_time, exp_samples }) => {
      const expression = parseQuery(expr);
      const atMs = durationMs(eval_time) ?? 0;
      const series = selectedBy(expression, all);
      const wanted = exp_samples.map(({ labels, value }) => [labelsOf(labels).key, value] as const);
      const answer = evaluateAt(expression, { series, budget: new Budget() }, atMs);
      const found =
        answer.resultType === "vector"
          ? answer.result.map(({ metric, value }) => [metric.key, Number(value[1])] as const)
          : [["", Number(answer.result[1])] as const];
      expectSame(found, wanted);
      const step = { startMs: atMs, endMs: atMs, stepMs: 1_000 };
      const over = await evaluateOver(expression, { series, budget: new Budget() }, step);
      if (over.resultType !== "matrix") throw new Error("a range query answers a matrix");
      expectSame(
        over.result.map(({ metric, values }) => [metric.key, Number(values[0]?.[1])]),
        wanted,
      );
    });
  });
}

type Values = readonly (readonly [key: string, value: number])[];

function expectSame(found: Values, wanted: Values): void {
  const sorted = (values: Values) => [...values].sort(([a], [b]) => (a < b ? -1 : 1));
  expect(found.map(([key]) => key).sort()).toEqual(wanted.map(([key]) => key).sort());
  const expected = sorted(wanted);
  for (const [index, [, value]] of sorted(found).entries()) {
    const other = expected[index]?.[1] ?? Number.NaN;
    expect(Math.abs(value - other)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(other)));
  }
}

function selectedBy(expression: Expression, all: readonly Series[]): SeriesBySelector {
  return new Map(
    selectorsOf(expression).map((selector) => {
      const series = all.filter(({ labels }) => matchesAll(selector.matchers, labels));
      return [selector, { series, lookbackMs: 300_000 }];
    }),
  );
}

/** `name{label="value"}`, as selectors are written. */
function labelsOf(text: string): LabelSet {
  if (text === "{}") return LabelSet.EMPTY;
  const [selector] = selectorsOf(parseQuery(text));
  return LabelSet.of(
    Object.fromEntries(selector?.matchers.map(({ name, value }) => [name, value]) ?? []),
  );
}

/** Values as `1 2+3x4 _x5`: numbers, a number that grows so many times, and missing ones. */
function seriesOf(series: string, values: string, intervalMs: number): Series {
  const samples = values.split(" ").flatMap((word): (number | undefined)[] => {
    const [, begin = "", step = "0", times] =
      /^(_|-?[\d.]+)([+-][\d.]+)?(?:x(\d+))?$/.exec(word) ?? [];
    if (begin === "_") return Array.from({ length: Number(times ?? 1) }, () => undefined);
    const count = times === undefined ? 1 : Number(times) + 1;
    return Array.from({ length: count }, (_, index) => Number(begin) + index * Number(step));
  });
  const known = samples.flatMap((value, index) =>
    value === undefined ? [] : [[index * intervalMs, value] as const],
  );
  return {
    labels: labelsOf(series),
    timesMs: known.map(([timeMs]) => timeMs),
    values: known.map(([, value]) => value),
  };
}
