import { aggregate } from "./aggregate.ts";
import { compute } from "./binary-operation.ts";
import type { Budget } from "./budget.ts";
import { type Bucket, bucketQuantile } from "./classic-histogram.ts";
import {
  type Aggregate,
  ARITHMETIC,
  type Binary,
  type Call,
  type Expression,
  SET_OPERATORS,
  type Selector,
  type SetOperator,
} from "./expression.ts";
import { LabelSet, NAME_LABEL, remembered } from "./label-set.ts";
import { RANGE_FUNCTIONS } from "./range-functions.ts";
import { countUntil, type Sample, type SeriesBySelector, type Vector } from "./series.ts";
import { oneToOne, setOperation } from "./vector-matching.ts";

const NAME = new Set([NAME_LABEL]);
const BOUND_LABELS = new Set([NAME_LABEL, "le"]);

type LabelFunction = (labels: LabelSet) => LabelSet;

/** Computes an expression at one time after the other. What does not depend on the time is kept. */
export class Evaluator {
  readonly #series: SeriesBySelector;
  readonly #budget: Budget;
  /** Per expression and purpose. */
  readonly #labelFunctions = new Map<object, LabelFunction>();
  readonly #nameless = remembered((labels) => labels.without(NAME));

  constructor(series: SeriesBySelector, budget: Budget) {
    this.#series = series;
    this.#budget = budget;
  }

  /** Of an expression of the type scalar. */
  scalar(expression: Expression, timeMs: number): number {
    switch (expression.kind) {
      case "number":
        return expression.value;
      case "negation":
        return -this.scalar(expression.of, timeMs);
      case "binary": {
        const { operator, bool } = expression;
        const left = this.scalar(expression.left, timeMs);
        const result = compute(operator, left, this.scalar(expression.right, timeMs));
        return bool ? Number(result !== undefined) : (result ?? Number.NaN);
      }
      case "call":
        return this.#scalarCall(expression, timeMs);
      default:
        throw new Error(`${expression.kind} is no scalar`);
    }
  }

  /** Of an expression of the type vector. */
  vector(expression: Expression, timeMs: number): Vector {
    const vector = this.#vector(expression, timeMs);
    this.#budget.takeElements(vector.length);
    return vector;
  }

  #vector(expression: Expression, timeMs: number): Vector {
    switch (expression.kind) {
      case "selector":
        return this.#instant(expression, timeMs);
      case "negation":
        return this.#mapped(expression.of, timeMs, (value) => -value);
      case "binary":
        return this.#binary(expression, timeMs);
      case "aggregate":
        return this.#aggregate(expression, timeMs);
      case "call":
        return this.#vectorCall(expression, timeMs);
      default:
        throw new Error(`${expression.kind} is no vector`);
    }
  }

  #scalarCall({ name, args: [argument] }: Call, timeMs: number): number {
    if (name === "time" || argument === undefined) return timeMs / 1_000;
    const vector = this.vector(argument, timeMs);
    return vector.length === 1 ? (vector[0]?.value ?? Number.NaN) : Number.NaN;
  }

  /** The newest sample of each series within the lookback. */
  #instant(selector: Selector, timeMs: number): Sample[] {
    const selected = this.#series.get(selector);
    if (selected === undefined) throw new Error("the series of a selector were not loaded");
    const { series, lookbackMs } = selected;
    const atMs = timeMs - selector.offsetMs;
    this.#budget.takeSamples(series.length);
    return series.flatMap(({ labels, timesMs, values }) => {
      const index = countUntil(timesMs, atMs) - 1;
      const isFresh = (timesMs[index] ?? Number.NEGATIVE_INFINITY) > atMs - lookbackMs;
      return isFresh ? [{ labels, value: values[index] ?? Number.NaN }] : [];
    });
  }

  #overRange(call: Call, selector: Expression | undefined, timeMs: number): Sample[] {
    const compute = RANGE_FUNCTIONS[call.name];
    if (selector?.kind !== "selector" || compute === undefined) {
      throw new Error(`${call.name} has no range`);
    }
    const endMs = timeMs - selector.offsetMs;
    const beginMs = endMs - (selector.rangeMs ?? 0);
    const labelsOf: LabelFunction =
      call.name === "last_over_time" ? (labels) => labels : this.#nameless;
    const series = this.#series.get(selector)?.series ?? [];
    this.#budget.takeSamples(series.length);
    return series.flatMap(({ labels, timesMs, values }) => {
      const from = countUntil(timesMs, beginMs);
      const to = countUntil(timesMs, endMs);
      if (to === from) return [];
      this.#budget.takeSamples(to - from);
      const value = compute({ timesMs, values, from, to, beginMs, endMs });
      return value === undefined ? [] : [{ labels: labelsOf(labels), value }];
    });
  }

  #mapped(of: Expression, timeMs: number, change: (value: number) => number): Sample[] {
    const vector = this.vector(of, timeMs);
    return vector.map(({ labels, value }) => ({
      labels: this.#nameless(labels),
      value: change(value),
    }));
  }

  #vectorCall(call: Call, timeMs: number): Vector {
    const [first, second] = call.args;
    if (first === undefined) throw new Error(`${call.name} has arguments`);
    if (first.type === "matrix") return this.#overRange(call, first, timeMs);
    const number = (missing: number) =>
      second === undefined ? missing : this.scalar(second, timeMs);
    switch (call.name) {
      case "vector":
        return [{ labels: LabelSet.EMPTY, value: this.scalar(first, timeMs) }];
      case "abs":
        return this.#mapped(first, timeMs, Math.abs);
      case "ceil":
        return this.#mapped(first, timeMs, Math.ceil);
      case "floor":
        return this.#mapped(first, timeMs, Math.floor);
      case "round": {
        // As Prometheus does: the inverse keeps round(x, 0.1) from ending in …0001.
        const inverse = 1 / number(1);
        return this.#mapped(first, timeMs, (value) => Math.floor(value * inverse + 0.5) / inverse);
      }
      case "clamp_min": {
        const bound = number(Number.NaN);
        return this.#mapped(first, timeMs, (value) => Math.max(value, bound));
      }
      case "clamp_max": {
        const bound = number(Number.NaN);
        return this.#mapped(first, timeMs, (value) => Math.min(value, bound));
      }
      case "histogram_quantile":
        return this.#histogramQuantile(call, timeMs);
      default:
        throw new Error(`nothing computes ${call.name}`);
    }
  }

  #histogramQuantile(call: Call, timeMs: number): Sample[] {
    const [share, buckets] = call.args;
    if (share === undefined || buckets === undefined) throw new Error("there are two arguments");
    const q = this.scalar(share, timeMs);
    const groupOf = this.#labels(call, (labels) => labels.without(BOUND_LABELS));
    const groups = new Map<string, { labels: LabelSet; buckets: Bucket[] }>();
    for (const { labels, value: count } of this.vector(buckets, timeMs)) {
      const le = labels.get("le");
      const upperBound = le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le || Number.NaN);
      if (Number.isNaN(upperBound)) continue;
      const group = groupOf(labels);
      const known = groups.get(group.key) ?? { labels: group, buckets: [] };
      known.buckets.push({ upperBound, count });
      groups.set(group.key, known);
    }
    return [...groups.values()].map((group) => ({
      labels: group.labels,
      value: bucketQuantile(q, group.buckets),
    }));
  }

  #aggregate(expression: Aggregate, timeMs: number): Sample[] {
    const { operation, by, labels: names, parameter } = expression;
    const dropped = new Set([...names, NAME_LABEL]);
    const groupOf = this.#labels(expression, (labels) =>
      by ? labels.only(names) : labels.without(dropped),
    );
    const k = parameter === undefined ? 0 : this.scalar(parameter, timeMs);
    return aggregate(operation, this.vector(expression.of, timeMs), groupOf, k);
  }

  #binary(expression: Binary, timeMs: number): Vector {
    const { operator, left, right, bool, matching } = expression;
    if (left.type === "scalar") {
      const number = this.scalar(left, timeMs);
      return this.#withNumber(expression, this.vector(right, timeMs), (value) => [number, value]);
    }
    if (right.type === "scalar") {
      const number = this.scalar(right, timeMs);
      return this.#withNumber(expression, this.vector(left, timeMs), (value) => [value, number]);
    }
    const { on, labels: names } = matching;
    const ignored = new Set([...names, NAME_LABEL]);
    const drops = bool || isArithmetic(operator);
    const signatureOf = this.#labels(matching, (labels) =>
      on ? labels.only(names) : labels.without(ignored),
    );
    const resultOf = this.#labels(expression, (labels) => {
      const kept = on ? labels.only(names) : labels.without(names);
      return drops ? kept.without(NAME) : kept;
    });
    const rules = { signatureOf, resultOf, bool };
    const [a, b] = [this.vector(left, timeMs), this.vector(right, timeMs)];
    if (isSetOperator(operator)) return setOperation(operator, a, b, rules);
    return oneToOne(operator, a, b, rules);
  }

  /** A comparison keeps the elements that it holds for, whichever side they are on. */
  #withNumber(
    { operator, bool }: Binary,
    vector: Vector,
    sidesOf: (value: number) => [left: number, right: number],
  ): Sample[] {
    return vector.flatMap(({ labels, value }) => {
      const result = compute(operator, ...sidesOf(value));
      if (bool) return [{ labels: this.#nameless(labels), value: Number(result !== undefined) }];
      if (result === undefined) return [];
      if (isArithmetic(operator)) return [{ labels: this.#nameless(labels), value: result }];
      return [{ labels, value }];
    });
  }

  #labels(owner: object, of: LabelFunction): LabelFunction {
    const known = this.#labelFunctions.get(owner) ?? remembered(of);
    this.#labelFunctions.set(owner, known);
    return known;
  }
}

function isArithmetic(operator: string): boolean {
  return (ARITHMETIC as readonly string[]).includes(operator);
}

function isSetOperator(operator: string): operator is SetOperator {
  return (SET_OPERATORS as readonly string[]).includes(operator);
}
