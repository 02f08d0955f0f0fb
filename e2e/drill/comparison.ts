/** The API's numbers beside the client's: errors, their spread, and whether that is within limits. */
import type { Json } from "../product.ts";
import type { Range } from "./counting-producer.ts";
import type { Answer, Observation } from "./workload.ts";

/** One measure of one scenario. */
export interface Row {
  measure: string;
  samples: number;
  /** As they are printed. */
  median: string;
  p90: string;
  max: string;
  limit: string;
  holds: boolean;
  note: string;
}

/** Relative errors: their median must be within the limit. Both are shares: 0.02 is 2 %. */
export function errorRow(
  measure: string,
  errors: readonly number[],
  limit: number,
  note = "",
): Row {
  const [median, p90, max] = quantiles(errors, percent);
  // Without samples there is no median, and nothing holds.
  const holds = errors.length > 0 && quantile(errors, 0.5) <= limit;
  return { measure, samples: errors.length, median, p90, max, limit: percent(limit), holds, note };
}

/** Lag that must be the client's to the record, of each partition, in both answers. */
export function exactRow(measure: string, observations: readonly Observation[]): Row {
  const differences = observations.flatMap(({ group, catchUp }) => [
    recordsOff(group, "lag"),
    catchUp === undefined ? Number.POSITIVE_INFINITY : recordsOff(catchUp, "backlog_records"),
  ]);
  const [median, p90, max] = quantiles(differences, String);
  const holds = differences.length > 0 && differences.every((difference) => difference === 0);
  return { measure, samples: differences.length, median, p90, max, limit: "0", holds, note: "" };
}

/** Something that must be true of each observation. */
export function factRow(
  measure: string,
  observations: readonly Observation[],
  isTrue: (observation: Observation) => boolean,
): Row {
  const samples = observations.length;
  const wrong = observations.filter((each) => !isTrue(each)).length;
  const none = { median: "", p90: "", max: "", limit: "" };
  return {
    ...{ measure, samples, ...none, limit: "always" },
    ...{ holds: samples > 0 && wrong === 0, note: `true in ${samples - wrong} of ${samples}` },
  };
}

export type LagField = "lag" | "backlog_records" | "backlog_bytes";

/** How far the answer is off, over all partitions. */
export function recordsOff({ body, truth }: Answer, field: LagField): number {
  const ranges = field === "backlog_bytes" ? truth.bytes : truth.records;
  return sum(
    ranges.map((range, partition) => {
      const told = body.partitions.find((each: Json) => each.partition === partition);
      return told === undefined ? Number.POSITIVE_INFINITY : distance(Number(told[field]), range);
    }),
  );
}

/** The same as a share of the true lag; undefined where that may be 0. */
export function lagError(answer: Answer, field: LagField): number | undefined {
  const { low, high } = trueLag(answer, field);
  return low === 0 ? undefined : recordsOff(answer, field) / ((low + high) / 2);
}

export function trueLag({ truth }: Answer, field: LagField): Range {
  const ranges = field === "backlog_bytes" ? truth.bytes : truth.records;
  return { low: sum(ranges.map(({ low }) => low)), high: sum(ranges.map(({ high }) => high)) };
}

export function relativeError(told: number, truth: number): number {
  return Math.abs(told - truth) / Math.abs(truth);
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/** A table with one line per scenario and measure. */
export function table(rows: readonly (Row & { scenario: string })[]): string {
  const head = ["scenario", "measure", "n", "median", "p90", "max", "limit", "", "note"];
  const lines = rows.map(({ scenario, measure, samples, median, p90, max, limit, holds, note }) => [
    ...[scenario, measure, String(samples), median, p90, max, limit],
    ...[holds ? "ok" : "MISSED", note],
  ]);
  const widths = head.map((_, at) => Math.max(...[head, ...lines].map((line) => line[at]!.length)));
  const isText = (at: number) => at < 2 || at > 6;
  const aligned = (line: readonly string[]) =>
    line.map((cell, at) => (isText(at) ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)));
  return [head, ...lines].map((line) => aligned(line).join("  ").trimEnd()).join("\n");
}

function quantiles(values: readonly number[], print: (value: number) => string) {
  if (values.length === 0) return ["", "", ""] as const;
  const [median, p90] = [quantile(values, 0.5), quantile(values, 0.9)];
  return [print(median), print(p90), print(Math.max(...values))] as const;
}

function distance(value: number, { low, high }: Range): number {
  return Math.max(0, low - value, value - high);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
