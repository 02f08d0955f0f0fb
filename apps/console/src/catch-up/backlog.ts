/** Backlogs as text, most urgent first. Pure. */
import type { CatchUp } from "@millrace/contract";
import type { CatchUpMode } from "@millrace/domain";
import { bytes, int64 } from "../format/quantity.ts";
import { duration } from "../format/time.ts";

export type CatchUpGroup = CatchUp["groups"][number];
export type CatchUpPartition = CatchUpGroup["partitions"][number];

/** What groups and their partitions have in common. */
type Reader = Pick<
  CatchUpGroup,
  "mode" | "eta_seconds" | "drain_bytes_per_second" | "backlog_bytes" | "backlog_records"
>;

export const MODE_WORDS: Record<CatchUpMode, string> = {
  tail: "Up to date",
  catch_up: "Catching up",
  falling_behind: "Falling behind",
  idle: "Idle",
};

/** Most urgent first. */
const MODE_ORDER: readonly CatchUpMode[] = ["falling_behind", "catch_up", "idle", "tail"];

/** `about 4 min`, or why there is no estimate. */
export function etaText(reader: Reader): string {
  const { mode, eta_seconds, drain_bytes_per_second } = reader;
  if (mode === "tail") return "up to date";
  if (mode === "idle") return "idle";
  if (mode === "falling_behind") return "falling behind";
  if (eta_seconds === null) return drain_bytes_per_second < 0 ? "backlog growing" : "estimating…";
  return `about ${duration(Math.max(1, eta_seconds))}`;
}

/** `3 min to 5 min`, or `at least 3 min`; undefined where there is no estimate. */
export function bandText(
  reader: Pick<CatchUpGroup, "mode" | "eta_low_seconds" | "eta_high_seconds">,
): string | undefined {
  const { mode, eta_low_seconds: low, eta_high_seconds: high } = reader;
  if (mode !== "catch_up" || low === null) return undefined;
  const from = duration(Math.max(1, low));
  if (high === null) return `at least ${from}`;
  const to = duration(Math.max(1, high));
  return from === to ? undefined : `${from} to ${to}`;
}

/** `1.2 GiB · 1,234,567 records`. */
export function backlogText({ backlog_bytes, backlog_records }: Reader): string {
  const records = backlog_records === "1" ? "record" : "records";
  return `${bytes(Number(backlog_bytes))} · ${int64(backlog_records)} ${records}`;
}

/** 0 to 100; undefined where the initial backlog is unknown. */
export function percentDone({ mode, progress }: CatchUpGroup): number | undefined {
  if (mode === "tail") return 100;
  return progress === null ? undefined : Math.max(0, Math.min(100, progress * 100));
}

/** The bar as text, for screen readers. */
export function progressText(group: CatchUpGroup): string {
  const percent = percentDone(group);
  const done = percent === undefined ? "" : `${Math.floor(percent)} % done, `;
  return `${done}${backlogText(group)} to go, ${etaText(group)}`;
}

/** Groups that never catch up first, then by remaining time, then by backlog. */
export function byUrgency(a: Reader, b: Reader): number {
  return (
    MODE_ORDER.indexOf(a.mode) - MODE_ORDER.indexOf(b.mode) ||
    // In whole seconds, so that rows with about the same time do not swap.
    Math.round(b.eta_seconds ?? 0) - Math.round(a.eta_seconds ?? 0) ||
    (a.eta_seconds === null ? compare(BigInt(b.backlog_bytes), BigInt(a.backlog_bytes)) : 0)
  );
}

/** `1 group is falling behind, 2 are catching up, 5 are up to date`. */
export function summaryText(groups: readonly CatchUpGroup[]): string {
  const of = (mode: CatchUpMode) => groups.filter((group) => group.mode === mode).length;
  const parts = [
    [of("falling_behind"), "is falling behind", "are falling behind"],
    [of("catch_up"), "is catching up", "are catching up"],
    [of("idle"), "is idle", "are idle"],
    [of("tail"), "is up to date", "are up to date"],
  ] as const;
  const told = parts.filter(([count]) => count > 0);
  return told
    .map(([count, one, many], at) => {
      const noun = at > 0 ? "" : count === 1 ? " group" : " groups";
      return `${count}${noun} ${count === 1 ? one : many}`;
    })
    .join(", ");
}

function compare(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
