/** The syntax tree of a query, reduced to what is supported. */
import type { LabelMatcher } from "./label-matcher.ts";

export type ValueType = "scalar" | "vector" | "matrix" | "string";

interface Located {
  /** Where it begins in the query. */
  readonly at: number;
}

export interface NumberLiteral extends Located {
  readonly kind: "number";
  readonly type: "scalar";
  readonly value: number;
}

export interface StringLiteral extends Located {
  readonly kind: "string";
  readonly type: "string";
  readonly value: string;
}

export interface Selector extends Located {
  readonly kind: "selector";
  readonly type: "vector" | "matrix";
  readonly matchers: readonly LabelMatcher[];
  readonly offsetMs: number;
  /** Of a range selector. */
  readonly rangeMs: number | undefined;
}

export interface Negation extends Located {
  readonly kind: "negation";
  readonly type: "scalar" | "vector";
  readonly of: Expression;
}

export const ARITHMETIC = ["+", "-", "*", "/", "%", "^"] as const;
export const COMPARISONS = ["==", "!=", ">", "<", ">=", "<="] as const;
export const SET_OPERATORS = ["and", "or", "unless"] as const;
export type ArithmeticOperator = (typeof ARITHMETIC)[number];
export type ComparisonOperator = (typeof COMPARISONS)[number];
export type SetOperator = (typeof SET_OPERATORS)[number];
export type Operator = ArithmeticOperator | ComparisonOperator | SetOperator;

/** Which labels have to be equal: those named (`on`), or all others but the metric's name. */
export interface Matching {
  readonly on: boolean;
  readonly labels: ReadonlySet<string>;
}

export interface Binary extends Located {
  readonly kind: "binary";
  readonly type: "scalar" | "vector";
  readonly operator: Operator;
  readonly left: Expression;
  readonly right: Expression;
  readonly bool: boolean;
  readonly matching: Matching;
}

export const AGGREGATIONS = ["sum", "avg", "min", "max", "count", "topk", "bottomk"] as const;
export type Aggregation = (typeof AGGREGATIONS)[number];

export interface Aggregate extends Located {
  readonly kind: "aggregate";
  readonly type: "vector";
  readonly operation: Aggregation;
  /** Labels that a group keeps, or those that it drops. */
  readonly by: boolean;
  readonly labels: ReadonlySet<string>;
  /** The k of topk and bottomk. */
  readonly parameter: Expression | undefined;
  readonly of: Expression;
}

export interface Call extends Located {
  readonly kind: "call";
  readonly type: "scalar" | "vector";
  readonly name: string;
  readonly args: readonly Expression[];
}

export type Expression =
  | NumberLiteral
  | StringLiteral
  | Selector
  | Negation
  | Binary
  | Aggregate
  | Call;

/** Every selector of an expression. */
export function selectorsOf(expression: Expression): Selector[] {
  switch (expression.kind) {
    case "selector":
      return [expression];
    case "negation":
      return selectorsOf(expression.of);
    case "binary":
      return [expression.left, expression.right].flatMap(selectorsOf);
    case "aggregate":
      return [expression.parameter ?? [], expression.of].flat().flatMap(selectorsOf);
    case "call":
      return expression.args.flatMap(selectorsOf);
    default:
      return [];
  }
}
