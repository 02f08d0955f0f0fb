import type { SyntaxNode, Tree } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";
import {
  AGGREGATIONS,
  type Aggregation,
  ARITHMETIC,
  COMPARISONS,
  type Expression,
  type Matching,
  type NumberLiteral,
  type Operator,
  SET_OPERATORS,
  type Selector,
  type ValueType,
} from "./expression.ts";
import { FUNCTIONS } from "./function-signatures.ts";
import { type LabelMatcher, labelMatcher, type MatchOperator } from "./label-matcher.ts";
import { NAME_LABEL } from "./label-set.ts";
import { durationMs, numberOf, unquoted } from "./literals.ts";
import { badQuery, PromqlError } from "./promql-error.ts";

/** A query of a dashboard has some hundred characters; a variable that lists topics makes it longer. */
export const QUERY_LENGTH_MAX = 10_000;
/** The tree is walked by recursion, and nobody writes so many parentheses. */
const DEPTH_MAX = 100;
const TOO_DEEP = `nested too deep: more than ${DEPTH_MAX} levels`;

/** The expression of a query. Throws `bad_data`. */
export function parseQuery(query: string): Expression {
  if (query.length > QUERY_LENGTH_MAX) {
    throw new PromqlError("bad_data", `the query has more than ${QUERY_LENGTH_MAX} characters`);
  }
  if (query.trim() === "") throw badQuery(query, 0, "no expression found in input");
  const root = syntaxOf(query).topNode.firstChild;
  if (root === null) throw badQuery(query, 0, "no expression found in input");
  return new Reader(query).expression(root, 0);
}

/** Ends at the first mistake: to recover from thousands of them takes seconds. */
const strict = parser.configure({ strict: true });

function syntaxOf(query: string): Tree {
  try {
    return strict.parse(query);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const position = Number(/\d+$/.exec(error.message)?.[0] ?? 0);
    assertNesting(query.slice(0, position));
    assertFunction(query, position);
    const found = query.slice(position, position + 20).trim();
    const message = found === "" ? "unexpected end of input" : `unexpected ${found}`;
    throw badQuery(query, position, message);
  }
}

/** The grammar gives up on deep nesting at some bracket or sign, which is as right as the others. */
function assertNesting(parsed: string): void {
  const plain = parsed.replaceAll(STRINGS_AND_COMMENTS, (text) => " ".repeat(text.length));
  let brackets = 0;
  let signs = 0;
  for (const [at, char] of [...plain].entries()) {
    if ("([{".includes(char)) brackets += 1;
    if (")]}".includes(char)) brackets -= 1;
    if ("+-".includes(char)) signs += 1;
    else if (char.trim() !== "") signs = 0;
    if (brackets + signs > DEPTH_MAX) throw badQuery(parsed, at, TOO_DEEP);
  }
}

const STRINGS_AND_COMMENTS = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|#[^\n]*/g;

/** The grammar reads a name before a bracket as a metric unless it knows the function. */
function assertFunction(query: string, position: number): void {
  if (query[position] !== "(") return;
  const [, name] = /([a-zA-Z_]\w*)\s*$/.exec(query.slice(0, position)) ?? [];
  if (name === undefined) return;
  throw badQuery(query, query.lastIndexOf(name, position), `unknown function ${name}`);
}

/** What a binary expression has beside its left side. */
interface Operation {
  readonly operator: Operator;
  readonly right: Expression;
  readonly bool: boolean;
  readonly modifier: SyntaxNode | undefined;
}

/** What is of no interest: signs between parts, and comments. */
const IGNORED: ReadonlySet<string> = new Set(["LineComment"]);

/** Turns the syntax tree of one query into an expression. */
class Reader {
  readonly #query: string;

  constructor(query: string) {
    this.#query = query;
  }

  expression(node: SyntaxNode, depth: number): Expression {
    if (depth > DEPTH_MAX) throw this.#error(node, TOO_DEEP);
    const at = node.from;
    const inner = depth + 1;
    switch (node.name) {
      case "ParenExpr":
        return this.expression(childrenOf(node)[0] ?? node, inner);
      case "NumberDurationLiteral":
        return this.#number(node);
      case "StringLiteral":
        return { kind: "string", type: "string", at, value: this.#string(node) };
      case "VectorSelector":
      case "MatrixSelector":
      case "OffsetExpr":
        return this.#selector(node, inner);
      case "UnaryExpr":
        return this.#unary(node, inner);
      case "BinaryExpr":
        return this.#binary(node, inner);
      case "AggregateExpr":
        return this.#aggregate(node, inner);
      case "FunctionCall":
        return this.#call(node, inner);
      case "SubqueryExpr":
        throw this.#error(node, "subqueries are not supported");
      case "StepInvariantExpr":
        throw this.#error(node, "the @ modifier is not supported");
      default:
        throw this.#error(node, `${node.name} is not supported`);
    }
  }

  #unary(node: SyntaxNode, depth: number): Expression {
    const [sign, operand] = childrenOf(node);
    if (!sign || !operand) throw this.#error(node, "incomplete expression");
    return this.#signed(node, this.#text(sign), this.expression(operand, depth));
  }

  #signed(node: SyntaxNode, sign: string, of: Expression): Expression {
    if (of.type !== "scalar" && of.type !== "vector") {
      const message = "unary expression only allowed on scalar or instant vector";
      throw this.#error(node, `${message}, got ${of.type}`);
    }
    if (sign === "+") return of;
    return { kind: "negation", type: of.type, at: node.from, of };
  }

  #binary(node: SyntaxNode, depth: number): Expression {
    const children = childrenOf(node);
    const [first, sign] = children;
    const last = children.at(-1);
    if (!first || !sign || !last) throw this.#error(node, "incomplete expression");
    const operator = this.#operator(sign);
    const operation = {
      operator,
      right: this.expression(last, depth),
      bool: children.some((each) => each.name === "BoolModifier"),
      modifier: children.find((each) => each.name === "MatchingModifierClause"),
    };
    if (operator === "^") return this.#power(node, first, operation, depth);
    return this.#operation(node, this.expression(first, depth), operation);
  }

  /** The grammar binds a sign more tightly than a power, Prometheus does not: -2 ^ 2 is -4. */
  #power(node: SyntaxNode, base: SyntaxNode, operation: Operation, depth: number): Expression {
    if (depth > DEPTH_MAX) throw this.#error(node, TOO_DEEP);
    if (base.name === "NumberDurationLiteral") {
      const { sign, value, ...number } = this.#number(base);
      const power = this.#operation(node, { ...number, value: Math.abs(value) }, operation);
      return sign === "-" ? this.#signed(base, sign, power) : power;
    }
    const [sign, operand] = base.name === "UnaryExpr" ? childrenOf(base) : [];
    if (sign === undefined || operand === undefined) {
      return this.#operation(node, this.expression(base, depth), operation);
    }
    const power = this.#power(node, operand, operation, depth + 1);
    return this.#signed(base, this.#text(sign), power);
  }

  /** A sign is part of the literal in some places. */
  #number(node: SyntaxNode): NumberLiteral & { readonly sign: string } {
    const text = this.#text(node);
    const [prefix, sign = ""] = /^([-+])\s*/.exec(text) ?? [""];
    const value = numberOf(text.slice(prefix.length));
    if (value === undefined) throw this.#error(node, `bad number ${text}`);
    const signed = sign === "-" ? -value : value;
    return { kind: "number", type: "scalar", at: node.from, value: signed, sign };
  }

  #operation(node: SyntaxNode, left: Expression, operation: Operation): Expression {
    const { operator, right, bool, modifier } = operation;
    for (const operand of [left, right]) {
      if (operand.type === "scalar" || operand.type === "vector") continue;
      const message = "binary expression must contain only scalar and instant vector types";
      throw this.#error(node, `${message}, got ${operand.type}`);
    }
    const type = left.type === "scalar" && right.type === "scalar" ? "scalar" : "vector";
    const isComparison = isOneOf(COMPARISONS, operator);
    if (bool && !isComparison) {
      throw this.#error(node, "bool modifier can only be used on comparison operators");
    }
    if (isComparison && type === "scalar" && !bool) {
      throw this.#error(node, "comparisons between scalars must use BOOL modifier");
    }
    const areVectors = left.type === "vector" && right.type === "vector";
    if (!areVectors && modifier) {
      throw this.#error(modifier, "vector matching only allowed between instant vectors");
    }
    if (!areVectors && isOneOf(SET_OPERATORS, operator)) {
      throw this.#error(node, `set operator ${operator} not allowed in binary scalar expression`);
    }
    const matching = this.#matching(modifier);
    return { kind: "binary", type, at: node.from, operator, left, right, bool, matching };
  }

  #operator(sign: SyntaxNode): Operator {
    const text = this.#text(sign).toLowerCase();
    const known = [...ARITHMETIC, ...COMPARISONS, ...SET_OPERATORS].find((each) => each === text);
    if (known === undefined) throw this.#error(sign, `the operator ${text} is not supported`);
    return known;
  }

  #matching(modifier: SyntaxNode | undefined): Matching {
    if (modifier === undefined) return { on: false, labels: new Set() };
    const children = childrenOf(modifier);
    const unsupported = children.find(
      (each) => !["On", "Ignoring", "GroupingLabels"].includes(each.name),
    );
    if (unsupported) throw this.#error(unsupported, `${this.#text(unsupported)} is not supported`);
    const on = children.some((each) => each.name === "On");
    return { on, labels: this.#labels(children.find((each) => each.name === "GroupingLabels")) };
  }

  #labels(node: SyntaxNode | undefined): ReadonlySet<string> {
    const names = node ? childrenOf(node).map((each) => this.#labelName(each)) : [];
    return new Set(names);
  }

  #labelName(node: SyntaxNode): string {
    return node.name === "QuotedLabelName" ? this.#string(node) : this.#text(node);
  }

  #aggregate(node: SyntaxNode, depth: number): Expression {
    const children = childrenOf(node);
    const [sign, ...rest] = children;
    const operation = this.#text(sign ?? node).toLowerCase();
    if (!isOneOf(AGGREGATIONS, operation)) {
      throw this.#error(node, `the aggregation ${operation} is not supported`);
    }
    const modifier = rest.find((each) => each.name === "AggregateModifier");
    const parts = modifier ? childrenOf(modifier) : [];
    const by = !parts.some((each) => each.name === "Without");
    const labels = this.#labels(parts.find((each) => each.name === "GroupingLabels"));
    const body = rest.find((each) => each.name === "FunctionCallBody");
    const args = (body ? childrenOf(body) : []).map((each) => this.expression(each, depth));
    const of = args.at(-1);
    const takesK = operation === "topk" || operation === "bottomk";
    if (of === undefined || args.length !== (takesK ? 2 : 1)) {
      throw this.#error(node, `wrong number of arguments for aggregate expression ${operation}`);
    }
    this.#expect(of, "vector", `aggregation ${operation}`);
    const parameter = takesK ? args[0] : undefined;
    if (parameter) this.#expect(parameter, "scalar", `aggregation ${operation}`);
    return {
      kind: "aggregate",
      type: "vector",
      at: node.from,
      operation: operation as Aggregation,
      by,
      labels,
      parameter,
      of,
    };
  }

  #call(node: SyntaxNode, depth: number): Expression {
    const [identifier, body] = childrenOf(node);
    const name = this.#text(identifier ?? node);
    const signature = FUNCTIONS[name];
    if (signature === undefined) throw this.#error(node, `the function ${name} is not supported`);
    const args = (body ? childrenOf(body) : []).map((each) => this.expression(each, depth));
    const required = signature.args.length - (signature.optional ?? 0);
    if (args.length < required || args.length > signature.args.length) {
      throw this.#error(node, `wrong number of arguments in call to ${name}: got ${args.length}`);
    }
    for (const [index, arg] of args.entries()) {
      this.#expect(arg, signature.args[index] ?? "scalar", `call to function ${name}`);
    }
    return { kind: "call", type: signature.returns, at: node.from, name, args };
  }

  #expect(expression: Expression, type: ValueType, where: string): void {
    if (expression.type === type) return;
    throw badQuery(
      this.#query,
      expression.at,
      `expected type ${type} in ${where}, got ${expression.type}`,
    );
  }

  #selector(node: SyntaxNode, depth: number): Selector {
    if (depth > DEPTH_MAX) throw this.#error(node, TOO_DEEP);
    const [first, ...rest] = childrenOf(node);
    if (node.name === "VectorSelector") {
      const matchers = this.#matchers(node);
      return {
        kind: "selector",
        type: "vector",
        at: node.from,
        matchers,
        offsetMs: 0,
        rangeMs: undefined,
      };
    }
    if (first === undefined || !["VectorSelector", "MatrixSelector"].includes(first.name)) {
      throw this.#error(
        node,
        `${node.name === "OffsetExpr" ? "offset" : "a range"} is only supported directly after a selector`,
      );
    }
    const of = this.#selector(first, depth + 1);
    const duration = this.#duration(rest.at(-1) ?? node);
    if (node.name === "OffsetExpr") return { ...of, offsetMs: duration };
    if (duration <= 0) throw this.#error(node, "duration must be greater than 0");
    return { ...of, type: "matrix", rangeMs: duration };
  }

  #duration(node: SyntaxNode): number {
    const text = this.#text(node).trim();
    const sign = text.startsWith("-") ? -1 : 1;
    const value = durationMs(text.replace(/^[-+]\s*/, ""));
    if (value === undefined || !Number.isFinite(value)) {
      throw this.#error(node, `the duration ${text} is not supported`);
    }
    return sign * value;
  }

  #matchers(node: SyntaxNode): LabelMatcher[] {
    const matchers = childrenOf(node).flatMap((child) => {
      if (child.name === "Identifier")
        return this.#matcher(child, NAME_LABEL, "=", this.#text(child));
      return child.name === "LabelMatchers"
        ? childrenOf(child).map((each) => this.#labelMatcher(each))
        : [];
    });
    const isNarrow = matchers.some(({ matches }) => !matches(""));
    if (!isNarrow)
      throw this.#error(node, "vector selector must contain at least one non-empty matcher");
    if (
      matchers.filter(({ name, operator }) => name === NAME_LABEL && operator === "=").length > 1
    ) {
      throw this.#error(node, "metric name must not be set twice");
    }
    return matchers;
  }

  #labelMatcher(node: SyntaxNode): LabelMatcher {
    if (node.name === "QuotedLabelName")
      return this.#matcher(node, NAME_LABEL, "=", this.#string(node));
    const [name, operator, value] = childrenOf(node);
    if (!name || !operator || !value) throw this.#error(node, "incomplete label matcher");
    return this.#matcher(node, this.#labelName(name), this.#text(operator), this.#string(value));
  }

  #matcher(node: SyntaxNode, name: string, operator: string, value: string): LabelMatcher {
    try {
      return labelMatcher(name, operator as MatchOperator, value);
    } catch (error) {
      throw this.#error(node, error instanceof Error ? error.message : "bad matcher");
    }
  }

  #string(node: SyntaxNode): string {
    try {
      return unquoted(this.#text(node));
    } catch (error) {
      throw this.#error(node, error instanceof Error ? error.message : "bad string");
    }
  }

  #text(node: SyntaxNode): string {
    return this.#query.slice(node.from, node.to);
  }

  #error(node: SyntaxNode, message: string): PromqlError {
    return badQuery(this.#query, node.from, message);
  }
}

function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) {
    if (!IGNORED.has(child.name)) children.push(child);
  }
  return children;
}

function isOneOf(all: readonly string[], one: string): boolean {
  return all.includes(one);
}
