import { RE2JS } from "re2js";
import type { LabelSet } from "./label-set.ts";
import { NAME_LABEL } from "./label-set.ts";

/** Prometheus has no bound; names of topics are shorter than this, and a dashboard's variable may list many. */
export const PATTERN_LENGTH_MAX = 2_000;
/** Instructions of a compiled pattern; a list of names has one per character. A match takes time in proportion. */
const PATTERN_PROGRAM_MAX = 2_500;
/** All `{n,m}` of a pattern together: each is compiled as so many copies, before their number is known. */
const PATTERN_COUNTS_MAX = 100;

export type MatchOperator = "=" | "!=" | "=~" | "!~";

export interface LabelMatcher {
  readonly name: string;
  readonly operator: MatchOperator;
  readonly value: string;
  readonly matches: (value: string) => boolean;
}

/** Throws an `Error` for a pattern that is wrong or too large. */
export function labelMatcher(name: string, operator: MatchOperator, value: string): LabelMatcher {
  return { name, operator, value, matches: testOf(operator, value) };
}

function testOf(operator: MatchOperator, value: string): (value: string) => boolean {
  if (operator === "=") return (other) => other === value;
  if (operator === "!=") return (other) => other !== value;
  const pattern = compile(value);
  // Series are few and the same values are asked for again.
  const known = new Map<string, boolean>();
  return (other) => {
    const before = known.get(other);
    if (before !== undefined) return before;
    const matches = pattern.matches(other) === (operator === "=~");
    known.set(other, matches);
    return matches;
  };
}

/** RE2: linear in the length of the text whatever the pattern, and the syntax that Prometheus has. */
function compile(pattern: string): RE2JS {
  if (pattern.length > PATTERN_LENGTH_MAX) {
    throw new Error(`a regular expression has at most ${PATTERN_LENGTH_MAX} characters`);
  }
  const counts = [...pattern.matchAll(/\{(\d+),?(\d*)\}/g)];
  const copies = counts.reduce((sum, [, least, most]) => sum + Number(most || least), 0);
  if (copies > PATTERN_COUNTS_MAX) {
    throw new Error(`the counts of a regular expression are ${PATTERN_COUNTS_MAX} in all at most`);
  }
  const compiled = compiledAsTyped(pattern);
  if (compiled.programSize() > PATTERN_PROGRAM_MAX) {
    throw new Error("the regular expression is too large");
  }
  return compiled;
}

/** The flag is compiled as a prefix, which the error would show as part of the pattern. */
function compiledAsTyped(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern, RE2JS.DOTALL);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const message = error.message.replace(`\`(?s)${pattern}\``, () => `\`${pattern}\``);
    throw new Error(message, { cause: error });
  }
}

export function matchesAll(matchers: readonly LabelMatcher[], labels: LabelSet): boolean {
  return matchers.every(({ name, matches }) => matches(labels.get(name)));
}

/** Whether a metric of this name may fit the matchers. */
export function matchesName(matchers: readonly LabelMatcher[], name: string): boolean {
  return matchers.every((matcher) => matcher.name !== NAME_LABEL || matcher.matches(name));
}

/** The value that a label has to have, if there is only one. */
export function onlyValue(matchers: readonly LabelMatcher[], name: string): string | undefined {
  return matchers.find((each) => each.name === name && each.operator === "=")?.value;
}
