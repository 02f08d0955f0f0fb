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
      return sizeWords(issue.origin, Number(issue.maximum), "at most");
    case "too_small":
      if (isText(issue.origin) && Number(issue.minimum) === 1) return "must not be empty";
      return sizeWords(issue.origin, Number(issue.minimum), "at least");
    case "invalid_format":
      return FORMAT_WORDS[issue.format] ?? "has an invalid format";
    case "invalid_key":
      return "is not a valid name";
    case "unrecognized_keys":
      return "is not a field of this request";
    default:
      return "is not valid";
  }
}

const FORMAT_WORDS: Readonly<Record<string, string>> = {
  datetime: "must be an RFC 3339 time in UTC, like 2026-01-31T12:00:00Z",
  date: "must be a date, like 2026-01-31",
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

function typeWords(expected: string): string {
  return TYPE_WORDS[expected] ?? `a ${expected}`;
}

function isText(origin: string): boolean {
  return origin === "string";
}

function sizeWords(origin: string, bound: number, most: string): string {
  const amount = bound.toLocaleString("en");
  if (isText(origin))
    return `must have ${most} ${amount} ${bound === 1 ? "character" : "characters"}`;
  if (origin === "array" || origin === "set") return `must have ${most} ${amount} entries`;
  return `must be ${most} ${amount}`;
}
