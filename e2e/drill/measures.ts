/** A group's numbers in motion: lag, rates and remaining time. */
import {
  errorRow,
  type LagField,
  lagError,
  percent,
  quantile,
  type Row,
  relativeError,
  trueLag,
} from "./comparison.ts";
import type { CountHistory } from "./count-history.ts";
import type { Outcome } from "./scenarios.ts";
import type { Answer, Workload } from "./workload.ts";

const LAG_LIMIT = 0.02;
export const RATE_LIMIT = 0.1;
const ETA_LIMIT = 0.25;

/** The window of the means that remaining times rest on. */
const ETA_WINDOW_MS = 30_000;
/** A shorter time is more about when it was asked than about what was told. */
const REMAINING_MS_MIN = 15_000;
/** A group's current rates are means in which what is this old weighs 1/e of what is new. */
const RATE_WINDOW_MS = 10_000;

/** Which of the answers are compared. */
export const RULES = [
  "Errors are relative to the truth; their median counts. The truth of a lag lies between the client's",
  "counts before and after the call, and where it may be 0 only the lag at rest is compared.",
  `A group's rates and ETA: once it has read for ${ETA_WINDOW_MS / 1_000} s.`,
  `ETA: while more than ${REMAINING_MS_MIN / 1_000} s remain. The end is reached when the client has read everything.`,
].join("\n");

/** Lag while it changes. */
export function lagRows({ workload }: Outcome): Row[] {
  const groups = workload.observations.map(({ group }) => group);
  return [
    lagRow("lag, consumer group", groups, "lag"),
    lagRow("lag, catch-up status", catchUps(workload), "backlog_records"),
    lagRow("lag in bytes, catch-up status", catchUps(workload), "backlog_bytes"),
  ];
}

function lagRow(measure: string, answers: readonly Answer[], field: LagField): Row {
  const errors = answers.map((answer) => lagError(answer, field));
  const widths = answers.map((answer) => {
    const { low, high } = trueLag(answer, field);
    return (high - low) / Math.max(1, high + low);
  });
  const known = `truth known to ±${(quantile(widths, 0.5) * 100).toFixed(2)} %`;
  return errorRow(
    measure,
    errors.filter((error) => error !== undefined),
    LAG_LIMIT,
    known,
  );
}

/** How fast the group reads, its topic grows, and its backlog shrinks, as the catch-up status tells it. */
export function groupRateRows({ workload, catchingUp }: Outcome): Row[] {
  if (catchingUp === undefined) return [];
  const { consumer, since } = workload.reading;
  const { ackedBytes } = workload.producer;
  const row = (measure: string, field: string, from: number, truth: (atMs: number) => number) => {
    const answers = catchUps(workload).filter(
      ({ at }) => at >= from + ETA_WINDOW_MS && at <= catchingUp.reachedAt,
    );
    const errors = answers.map(({ at, body }) => relativeError(body[field], truth(at)));
    return errorRow(measure, errors, RATE_LIMIT);
  };
  const rate = (counted: CountHistory) => (atMs: number) =>
    counted.weightedPerSecond(atMs, RATE_WINDOW_MS, since);
  const read = rate(consumer.readBytes);
  const produced = rate(ackedBytes);
  const drained = (atMs: number) => read(atMs) - produced(atMs);
  const rows = [
    row("read rate, group", "read_bytes_per_second", since, read),
    row("drain rate, group", "drain_bytes_per_second", since, drained),
  ];
  if (ackedBytes.newestAt <= since) return rows;
  return [...rows, row("produce rate, group", "produce_bytes_per_second", since, produced)];
}

/** The remaining time, compared once the group has arrived. */
export function etaRows({ workload, catchingUp }: Outcome): Row[] {
  if (catchingUp === undefined) return [];
  const { since, reachedAt } = catchingUp;
  const answers = catchUps(workload).filter(
    ({ at }) => at >= since + ETA_WINDOW_MS && at <= reachedAt - REMAINING_MS_MIN,
  );
  const signed = answers.map(({ at, body }) => {
    const remaining = (reachedAt - at) / 1_000;
    // No estimate is as wrong as can be.
    return body.eta_seconds === null
      ? Number.POSITIVE_INFINITY
      : (body.eta_seconds - remaining) / remaining;
  });
  const inBand = answers.filter(({ at, body }) => {
    const remaining = (reachedAt - at) / 1_000;
    const { eta_low_seconds: low, eta_high_seconds: high } = body;
    return low !== null && low <= remaining && (high === null || remaining <= high);
  });
  const [first, last] = [signed.at(0), signed.at(-1)].map((each) => percent(each ?? Number.NaN));
  const note = `inside the band ${inBand.length} of ${answers.length}; first ${first}, last ${last}`;
  return [errorRow("ETA", signed.map(Math.abs), ETA_LIMIT, note)];
}

function catchUps({ observations }: Workload): Answer[] {
  return observations.map(({ catchUp }) => catchUp).filter((answer) => answer !== undefined);
}
