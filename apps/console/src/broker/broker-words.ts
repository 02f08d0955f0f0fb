/** Brokers as text. */
import type { Broker } from "@millrace/contract";
import { byteRate } from "../format/quantity.ts";
import { duration, exactMoment } from "../format/time.ts";

type State = Broker["state"];

/** Mantine's colours. */
const STATES: Readonly<Record<State, { readonly text: string; readonly color: string }>> = {
  active: { text: "Active", color: "green" },
  draining: { text: "Moving its partitions away", color: "blue" },
  fenced: { text: "Not heard from", color: "red" },
  left: { text: "Stopped", color: "gray" },
  unknown: { text: "Unknown", color: "gray" },
};

export function stateOf({ state }: Pick<Broker, "state">) {
  return STATES[state];
}

/** How full the write-ahead log is, from 0 to 100; undefined while the broker does not answer. */
export function walPercent({ wal }: Pick<Broker, "wal">): number | undefined {
  if (wal === null || wal.capacity_bytes === "0") return undefined;
  return Math.min(100, (Number(wal.used_bytes) / Number(wal.capacity_bytes)) * 100);
}

const DAY_SECONDS = 86_400;

/** How long the log lasts if nothing is uploaded; undefined where that is a day or more, or not known. */
export function walLeftText({ wal }: Pick<Broker, "wal">): string | undefined {
  const seconds = wal?.seconds_left ?? DAY_SECONDS;
  return seconds < DAY_SECONDS ? `Full in ${duration(seconds)} if uploads stop` : undefined;
}

/** What clients do with its partitions. */
export function loadText({ load }: Pick<Broker, "load">): string {
  return load === null ? "–" : byteRate(Number(load));
}

/** Above it, producers may soon have to wait. */
const WAL_HIGH_PERCENT = 80;

export function walColor(percent: number): string {
  return percent >= WAL_HIGH_PERCENT ? "red" : "blue";
}

/** Since when nothing was heard of the broker, or that it is connected now. */
export function contactText({ control_link, last_heard_at }: Broker): string {
  if (control_link === "connected") return "connected";
  return last_heard_at === null ? "never" : exactMoment(last_heard_at);
}

/** `4`, or `4, 2 moving` while partitions are on their way to another broker. */
export function leadersText({ leaders, moving }: Broker): string {
  if (leaders === null) return "all";
  return moving ? `${leaders}, ${moving} moving` : `${leaders}`;
}
