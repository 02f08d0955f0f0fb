/** What a client went through while its partitions moved: gaps, errors, and what became of its records. */
import { quantile } from "./comparison.ts";
import { delayAfter, gapOf, gapsBetween, type Move } from "./move-gaps.ts";
import type { SteadyClient } from "./steady-client.ts";

/** The 99th percentile of the gaps of moves. */
export const GAP_P99_MS_MAX = 300;

/** When the drill did what: Unix time in ms. */
export interface Timeline {
  /** The load was steady; nothing was moved yet. */
  steadyFrom: number;
  movesFrom: number;
}

interface Gaps {
  count: number;
  p50: number;
  p99: number;
  max: number;
}

export interface ClientReport {
  client: string;
  acked: number;
  moves: Gaps;
  /** From the completion of a move to the next acknowledgement: what the client takes, beside the interval of its records. */
  resumption: Gaps;
  /** The same windows, in the time before the first move. */
  idle: Gaps;
  /** Errors that have reached the application, of the producer and the consumer. */
  errors: string[];
  /** Acknowledged records that the topic does not have. */
  lost: number;
  /** Records that the topic has again. Only a producer that is not idempotent may write them. */
  duplicated: number;
  reordered: number;
  /** The consumer's: acknowledged records that it was not given, or again, or out of order. */
  unread: number;
  rereads: number;
  readOutOfOrder: number;
  /** What the drill fails for. */
  faults: string[];
}

export interface Rules {
  /** Whether the producer is. */
  isIdempotent: boolean;
  /** The 99th percentile of the gaps must be below. */
  gapMsMax: number;
}

/** @param stored the values of each partition as they are in the topic. */
export function reportOf(
  client: SteadyClient,
  moves: readonly Move[],
  { steadyFrom, movesFrom }: Timeline,
  stored: readonly number[][],
  rules: Rules,
): ClientReport {
  const ackedAt = client.partitions.map((each) => each.ackedAt.toSorted((a, b) => a - b));
  const inTopic = client.partitions.map(({ acked }, at) => compare(acked, stored[at]!));
  const consumed = client.partitions.map(({ acked, read }) => compare(acked, read));
  const report = {
    client: client.name,
    acked: total(client.partitions, ({ acked }) => acked.size),
    moves: summary(moves.map((move) => gapOf(ackedAt[move.partition]!, move))),
    resumption: summary(
      moves.map((move) => delayAfter(ackedAt[move.partition]!, move.completedAt)),
    ),
    idle: summary(ackedAt.flatMap((times) => gapsBetween(times, steadyFrom, movesFrom))),
    errors: client.errors,
    lost: total(inTopic, ({ missing }) => missing),
    duplicated: total(inTopic, ({ again }) => again),
    reordered: total(inTopic, ({ outOfOrder }) => outOfOrder),
    unread: total(consumed, ({ missing }) => missing),
    rereads: consumed.reduce(
      (sum, { again }, at) => sum + Math.max(0, again - inTopic[at]!.again),
      0,
    ),
    readOutOfOrder: total(consumed, ({ outOfOrder }) => outOfOrder),
  };
  return { ...report, faults: faultsOf(report, rules) };
}

function faultsOf(report: Omit<ClientReport, "faults">, rules: Rules): string[] {
  const { isIdempotent, gapMsMax } = rules;
  const counts = {
    "errors reached the application": report.errors.length,
    "acknowledged records are lost": report.lost,
    "records are duplicated": isIdempotent ? report.duplicated : 0,
    "records are out of order": report.reordered,
    "acknowledged records were not consumed": report.unread,
    "records were consumed again": isIdempotent ? report.rereads : 0,
    "records were consumed out of order": report.readOutOfOrder,
  };
  const found = Object.entries(counts).filter(([, count]) => count > 0);
  const faults = found.map(([what, count]) => `${count} ${what}`);
  if (report.moves.p99 < gapMsMax) return faults;
  return [...faults, `gap p99 is not below ${gapMsMax} ms`];
}

/** A table with one line per client. */
export function gapTable(reports: readonly ClientReport[]): string {
  const lines = reports.map((each) => [
    each.client,
    ...[each.moves.count, each.moves.p50, each.moves.p99, each.moves.max],
    ...[each.resumption.p50, each.resumption.p99, each.idle.p50, each.idle.p99],
    ...[each.acked, each.errors.length, each.lost, each.duplicated, each.reordered],
    ...[each.unread, each.rereads, each.readOutOfOrder],
    each.faults.length === 0 ? "ok" : "FAILED",
  ]);
  const head = [
    ...["client", "moves", "gap p50", "p99", "max", "resumed p50", "p99", "idle p50", "p99"],
    ...["acked", "errors", "lost", "duplicated", "reordered"],
    ...["not read", "read again", "read reordered", ""],
  ];
  return [head, head.map(() => "---"), ...lines]
    .map((line) => `| ${line.join(" | ")} |`)
    .join("\n");
}

/** How a partition's values differ from the acknowledged ones, each once and ascending. */
function compare(acked: ReadonlySet<number>, values: readonly number[]) {
  const seen = new Set<number>();
  let [again, outOfOrder, last] = [0, 0, -1];
  for (const value of values) {
    if (seen.has(value)) again++;
    else if (value < last) outOfOrder++;
    else last = value;
    seen.add(value);
  }
  const missing = Array.from(acked).filter((value) => !seen.has(value)).length;
  return { missing, again, outOfOrder };
}

function summary(gaps: readonly number[]): Gaps {
  const [p50, p99] = [quantile(gaps, 0.5), quantile(gaps, 0.99)];
  return { count: gaps.length, p50, p99, max: Math.max(...gaps) };
}

function total<T>(all: readonly T[], count: (each: T) => number): number {
  return all.reduce((sum, each) => sum + count(each), 0);
}
