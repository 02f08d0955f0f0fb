/** Amounts of bytes as people set them: exact, in the unit in which they are short. */
import type { TuningUnit } from "@millrace/domain";

/** A unit that an amount can be written in. */
export interface Unit {
  label: string;
  /** How many bytes, or bytes per second, one of it is. */
  bytes: number;
}

/** From the largest to the smallest; rates have the units of networks beside those of memory. */
const UNITS: Record<TuningUnit, readonly [Unit, ...Unit[]]> = {
  bytes: [
    { label: "GiB", bytes: 1024 ** 3 },
    { label: "MiB", bytes: 1024 ** 2 },
    { label: "KiB", bytes: 1024 },
    { label: "bytes", bytes: 1 },
  ],
  bytes_per_second: [
    { label: "GiB/s", bytes: 1024 ** 3 },
    { label: "MiB/s", bytes: 1024 ** 2 },
    { label: "Gbit/s", bytes: 125_000_000 },
    { label: "MB/s", bytes: 1_000_000 },
    { label: "bytes/s", bytes: 1 },
  ],
};
/** More digits after the point than these are no short way to write an amount. */
const DECIMALS_MAX = 2;

export function unitsOf(kind: TuningUnit): readonly [Unit, ...Unit[]] {
  return UNITS[kind];
}

/** The unit called `label`; the smallest where there is none of that name. */
export function unitNamed(kind: TuningUnit, label: string): Unit {
  const units = UNITS[kind];
  return units.find((unit) => unit.label === label) ?? (units.at(-1) as Unit);
}

/** The largest unit in which the amount is exact and not below one. */
export function unitFor(kind: TuningUnit, amount: number): Unit {
  const scale = 10 ** DECIMALS_MAX;
  const fits = ({ bytes }: Unit) => amount >= bytes && Number.isInteger((amount / bytes) * scale);
  return UNITS[kind].find(fits) ?? (UNITS[kind].at(-1) as Unit);
}

/** `134217728` → `128 MiB`; `134217729` → `134,217,729 bytes`. */
export function exactly(kind: TuningUnit, amount: number): string {
  const unit = unitFor(kind, amount);
  return `${(amount / unit.bytes).toLocaleString("en")} ${unit.label}`;
}

/** The amount without a unit, for those who want each byte: `134,217,728 bytes`. */
export function everyByte(kind: TuningUnit, amount: number): string {
  return `${amount.toLocaleString("en")} ${kind === "bytes" ? "bytes" : "bytes/s"}`;
}

/** What was typed, in whole bytes; undefined where it is no amount. */
export function amountOf(text: string, unit: Unit): number | undefined {
  if (text.trim() === "") return undefined;
  const amount = Math.round(Number(text) * unit.bytes);
  return Number.isSafeInteger(amount) && amount >= 0 ? amount : undefined;
}
