/**
 * What is wrong with a field, in words that complete "<field> …". A schema's own message wins. The
 * validator's words ("Too big: expected number to be <=10000") name its types, not the reader's.
 */
import { z } from "zod";

type Issue = Parameters<NonNullable<z.core.$ZodConfig["customError"]>>[0];

/** Speaks for every schema of the process that has no words of its own. */
export function useValidationWords(): void {
  z.config({ customError: wordsFor });
}

export function wordsFor(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is required" : `must be ${typeWords(issue.expected)}`;
    case "invalid_value":
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.map(String).join(", ")}`;
    case "too_big":
      return sizeWords(
        issue,
        Number(issue.maximum),
        issue.inclusive === false ? "less than" : "at most",
      );
    case "too_small":
      if (!isAmount(issue.origin) && Number(issue.minimum) === 1) return "must not be empty";
      return sizeWords(
        issue,
        Number(issue.minimum),
        issue.inclusive === false ? "more than" : "at least",
      );
    case "invalid_format":
      return FORMAT_WORDS[issue.format] ?? "has an invalid format";
    case "invalid_key":
      return nameWords(issue.issues[0]?.message);
    case "unrecognized_keys":
      return "is not a field of this request";
    default:
      return "is not valid";
  }
}

const FORMAT_WORDS: Readonly<Record<string, string>> = {
  datetime: "must be an RFC 3339 time in UTC, like 2026-01-31T12:00:00Z",
  date: "must be a date, like 2026-01-31",
  email: "must be an e-mail address",
  url: "must be a URL",
  cidrv4: "must be an IPv4 range, like 10.0.0.0/16",
};

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

/** What a name must be is said by the schema of the names. */
function nameWords(rule: string | undefined): string {
  return rule === undefined ? "is not a valid name" : `is not a valid name: it ${rule}`;
}

function typeWords(expected: string): string {
  return TYPE_WORDS[expected] ?? `a ${expected}`;
}

/** What is counted in a value of this kind; undefined for a number, which is itself the amount. */
const COUNTED: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ["character", "characters"],
  array: ["entry", "entries"],
  set: ["entry", "entries"],
};

function isAmount(origin: string): boolean {
  return COUNTED[origin] === undefined;
}

function sizeWords({ origin }: { origin: string }, bound: number, relation: string): string {
  const amount = bound.toLocaleString("en");
  const counted = COUNTED[origin];
  if (counted === undefined) return `must be ${relation} ${amount}`;
  return `must have ${relation} ${amount} ${counted[bound === 1 ? 0 : 1]}`;
}
