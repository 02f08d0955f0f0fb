/**
 * Brokers' metrics as OpenMetrics 1.0.0 text, which Prometheus scrapes. What a broker exposes is the older text
 * format: there, the names of counters end in `_total` in `TYPE` lines too, and numbers may be written in any way.
 */
import { type MetricSample, parsePrometheusText } from "./prometheus-text.ts";

/** Samples of one answer; Prometheus' own usual limit for a target is lower. Families beyond it are left out whole. */
const SAMPLES_MAX = 200_000;
/** Longer than the longest topic name, group or client id that a broker takes for a label. */
const LABEL_VALUE_LENGTH_MAX = 512;

export type MetricType = "counter" | "gauge" | "histogram" | "unknown";

export interface MetricFamily {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string | undefined;
  readonly samples: readonly MetricSample[];
}

/** The metrics of one broker. */
export interface BrokerMetrics {
  readonly brokerId: number;
  readonly families: readonly MetricFamily[];
}

const COMMENT = /^# (TYPE|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$/;
const HISTOGRAM_SUFFIX = /_(bucket|sum|count)$/;

/** A broker's text by family, in its order. Throws `MalformedMetrics`. */
export function parseFamilies(text: string): MetricFamily[] {
  const types = new Map<string, string>();
  const helps = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, kind, name, rest] = COMMENT.exec(line.trimEnd()) ?? [];
    if (name === undefined || rest === undefined) continue;
    (kind === "TYPE" ? types : helps).set(name, rest);
  }
  const samples = new Map<string, MetricSample[]>();
  for (const sample of parsePrometheusText(text)) {
    const base = sample.name.replace(HISTOGRAM_SUFFIX, "");
    const family = types.get(base) === "histogram" ? base : sample.name;
    const known = samples.get(family);
    if (known) known.push(sample);
    else samples.set(family, [sample]);
  }
  return [...samples].map(([name, ofFamily]) => ({
    name,
    type: typeOf(types.get(name)),
    help: helps.get(name),
    samples: ofFamily,
  }));
}

function typeOf(type: string | undefined): MetricType {
  return type === "counter" || type === "gauge" || type === "histogram" ? type : "unknown";
}

/**
 * One text of all brokers, each sample with the label `broker`. Values that the format does not allow (a counter that is negative or not a
 * number) and samples with label values beyond the bound are left out; `millrace_prometheus_samples_left_out` counts them and those beyond `SAMPLES_MAX`.
 */
export function openMetricsText(brokers: readonly BrokerMetrics[]): string {
  const names = [...new Set(brokers.flatMap(({ families }) => families.map(({ name }) => name)))];
  const taken = new Set<string>();
  const lines: string[] = [];
  let written = 0;
  let leftOut = 0;
  for (const name of names) {
    const ofName = brokers.flatMap(({ brokerId, families }) =>
      families.filter((family) => family.name === name).map((family) => ({ brokerId, family })),
    );
    const [first] = ofName;
    if (first === undefined) continue;
    const { type, help } = first.family;
    const family = familyName(name, type);
    const own = ofName.flatMap(({ brokerId, family: { samples } }) =>
      samples.map((sample) => ({ ...sample, labels: { ...sample.labels, broker: `${brokerId}` } })),
    );
    const valid = own.filter((sample) => isValid(sample, family.type));
    // Two families of one name: of a counter x_total and a gauge x, for example.
    const fits = written + valid.length <= SAMPLES_MAX && !taken.has(family.name);
    leftOut += fits ? own.length - valid.length : own.length;
    if (!fits || valid.length === 0) continue;
    taken.add(family.name);
    written += valid.length;
    lines.push(`# TYPE ${family.name} ${family.type}`);
    if (help) lines.push(`# HELP ${family.name} ${help}`);
    for (const sample of valid) lines.push(sampleLine(sample));
  }
  lines.push("# TYPE millrace_prometheus_samples_left_out gauge");
  lines.push(`millrace_prometheus_samples_left_out ${leftOut}`, "# EOF", "");
  return lines.join("\n");
}

/** A counter is named without the `_total` of its samples; one whose samples have none is no counter here. */
function familyName(name: string, type: MetricType): { name: string; type: MetricType } {
  if (type !== "counter") return { name, type };
  return name.endsWith("_total")
    ? { name: name.slice(0, -"_total".length), type }
    : { name, type: "unknown" };
}

function isValid({ labels, value }: MetricSample, type: MetricType): boolean {
  const isCount = type === "counter" || type === "histogram";
  if (isCount && !(value >= 0)) return false;
  return Object.values(labels).every((text) => text.length <= LABEL_VALUE_LENGTH_MAX);
}

function sampleLine({ name, labels, value }: MetricSample): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escaped(label === "le" ? bound(text) : text)}"`,
  );
  return `${name}{${pairs.join(",")}} ${number(value)}`;
}

/** Bounds of buckets have one form, because they are compared as text. */
function bound(text: string): string {
  const value = Number(text);
  return Number.isFinite(value) ? canonical(value) : text;
}

/** A number as Go writes it, which the format takes over: `1.0`, `0.0005`, `1e+06`. */
function canonical(value: number): string {
  const [digits = "", exponent = "0"] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 6) return scientific(digits, power);
  const text = `${value}`;
  return text.includes(".") ? text : `${text}.0`;
}

function scientific(digits: string, power: number): string {
  return `${digits}e${power < 0 ? "-" : "+"}${`${Math.abs(power)}`.padStart(2, "0")}`;
}

function number(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  return `${value}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}
