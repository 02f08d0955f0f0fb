/**
 * The Prometheus text exposition format (version 0.0.4), read side.
 *
 * One sample per line: `name{label="value",…} value [timestamp]`. Comments and HELP/TYPE lines are
 * skipped: the reader knows which families it wants. The text is foreign; any bytes give samples or
 * a `MalformedMetrics`, never another exception, and the number of samples is bounded.
 */

export interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A broker with 10,000 partitions exposes about 60,000 samples; more than this is a fault. */
export const SAMPLES_MAX = 500_000;

export class MalformedMetrics extends Error {
  override readonly name = "MalformedMetrics";
  /** Line number, from 1. */
  readonly line: number;

  constructor(line: number, reason: string) {
    super(`line ${line} of the metrics text: ${reason}`);
    this.line = line;
  }
}

/** Whether a line is to be parsed, told from its metric name and the whole line. */
export type LineFilter = (name: string, line: string) => boolean;

/** Lines that `isWanted` rejects are neither parsed nor checked. Throws `MalformedMetrics`. */
export function parsePrometheusText(text: string, isWanted?: LineFilter): MetricSample[] {
  const samples: MetricSample[] = [];
  let lineNumber = 0;
  let start = 0;
  while (start <= text.length) {
    const newline = text.indexOf("\n", start);
    const end = newline === -1 ? text.length : newline;
    lineNumber += 1;
    const line = text.slice(start, end).trim();
    start = end + 1;
    if (line === "" || line.startsWith("#")) continue;
    if (isWanted && !isWanted(line.slice(0, nameLength(line)), line)) continue;
    if (samples.length === SAMPLES_MAX) {
      throw new MalformedMetrics(lineNumber, `more than ${SAMPLES_MAX} samples`);
    }
    samples.push(parseSample(line, lineNumber));
  }
  return samples;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;

/** Where labels or the value begin, found faster than by the pattern: most lines are not wanted. */
function nameLength(line: string): number {
  for (let at = 0; at < line.length; at += 1) {
    const character = line.charCodeAt(at);
    if (character === BRACE || character === SPACE || character === TAB) return at;
  }
  return line.length;
}

const BRACE = 0x7b;
const SPACE = 0x20;
const TAB = 0x09;

function parseSample(line: string, lineNumber: number): MetricSample {
  const name = NAME.exec(line)?.[0];
  if (name === undefined) throw new MalformedMetrics(lineNumber, "no metric name");
  let rest = line.slice(name.length);
  let labels: Record<string, string> = {};
  if (rest.startsWith("{")) {
    const parsed = parseLabels(rest, lineNumber);
    labels = parsed.labels;
    rest = rest.slice(parsed.length);
  }
  const [valueText, timestampText, ...extra] = rest.trim().split(/[ \t]+/);
  if (valueText === undefined || valueText === "" || extra.length > 0) {
    throw new MalformedMetrics(lineNumber, "no value after the name and labels");
  }
  if (timestampText !== undefined && !/^-?\d+$/.test(timestampText)) {
    throw new MalformedMetrics(lineNumber, "timestamp is not a number");
  }
  return { name, labels, value: parseValue(valueText, lineNumber) };
}

function parseValue(text: string, lineNumber: number): number {
  switch (text) {
    case "+Inf":
    case "Inf":
      return Number.POSITIVE_INFINITY;
    case "-Inf":
      return Number.NEGATIVE_INFINITY;
    case "NaN":
      return Number.NaN;
  }
  const value = Number(text);
  if (Number.isNaN(value)) throw new MalformedMetrics(lineNumber, "value is not a number");
  return value;
}

/** One `label="value"` with an optional comma behind it, at the current position. */
const LABEL = /[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,?)/y;
const LABELS_END = /[ \t]*\}/y;

function parseLabels(
  text: string,
  lineNumber: number,
): { labels: Record<string, string>; length: number } {
  const labels: Record<string, string> = Object.create(null);
  let position = 1;
  for (;;) {
    LABELS_END.lastIndex = position;
    if (LABELS_END.test(text)) return { labels, length: LABELS_END.lastIndex };
    LABEL.lastIndex = position;
    const match = LABEL.exec(text);
    const [, name, value, comma] = match ?? [];
    if (name === undefined || value === undefined) {
      throw new MalformedMetrics(lineNumber, "labels are not well formed");
    }
    labels[name] = unescapeValue(value);
    position = LABEL.lastIndex;
    if (comma === "" && text.slice(position).trimStart()[0] !== "}") {
      throw new MalformedMetrics(lineNumber, "labels are not closed");
    }
  }
}

function unescapeValue(value: string): string {
  if (!value.includes("\\")) return value;
  return value.replace(/\\(.)/g, (_all, character: string) =>
    character === "n"
      ? "\n"
      : character === '"' || character === "\\"
        ? character
        : `\\${character}`,
  );
}
