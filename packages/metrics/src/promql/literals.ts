/** Numbers, durations and strings as PromQL writes them. */

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  y: 365 * 86_400_000,
};
const DURATION = /^(?:\d+(?:ms|[ywdhms]))+$/;

/** Milliseconds: `1h30m`, or a number of seconds. Undefined for anything else. */
export function durationMs(text: string): number | undefined {
  if (DURATION.test(text)) {
    const parts = [...text.matchAll(/(\d+)(ms|[ywdhms])/g)];
    return parts.reduce(
      (sum, [, count, unit]) => sum + Number(count) * (UNIT_MS[unit ?? ""] ?? 0),
      0,
    );
  }
  const seconds = numberOf(text);
  return seconds === undefined ? undefined : Math.round(seconds * 1_000);
}

/** A number; a duration is its seconds. Undefined for anything else. */
export function numberOf(text: string): number | undefined {
  const plain = text.toLowerCase();
  if (plain === "inf") return Number.POSITIVE_INFINITY;
  if (plain === "nan") return Number.NaN;
  if (DURATION.test(text)) return (durationMs(text) ?? 0) / 1_000;
  const value = Number(plain.replaceAll("_", ""));
  return Number.isNaN(value) ? undefined : value;
}

const ESCAPES: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  "'": "'",
  '"': '"',
};
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.)|$)/gs;

/** The text between quotes or backticks, with Go's escapes. Throws an `Error` for an escape that is none. */
export function unquoted(literal: string): string {
  const text = literal.slice(1, -1);
  if (literal.startsWith("`")) return text;
  return text.replaceAll(ESCAPE, (whole, x, u, long, octal, single) => {
    const code = x ?? u ?? long;
    if (code !== undefined) return codePoint(Number.parseInt(code, 16), whole);
    if (octal !== undefined) return codePoint(Number.parseInt(octal, 8), whole);
    const known = ESCAPES[single ?? ""];
    if (known === undefined) throw new Error(`unknown escape sequence ${whole}`);
    return known;
  });
}

function codePoint(code: number, whole: string): string {
  if (code > 0x10ffff) throw new Error(`unknown escape sequence ${whole}`);
  return String.fromCodePoint(code);
}
