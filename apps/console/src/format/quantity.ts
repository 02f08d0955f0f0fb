/** Quantities as people read them. */

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const COUNT_UNITS = ["", "k", "M", "G", "T"];

/** `1536` → `1.5 KiB`. */
export function bytes(value: number): string {
  return scaled(value, 1024, BYTE_UNITS);
}

/** `1536` → `1.5 KiB/s`. */
export function byteRate(value: number): string {
  return `${bytes(value)}/s`;
}

/** `12345` → `12.3k`; digits below a thousand stay whole. */
export function count(value: number): string {
  return scaled(value, 1000, COUNT_UNITS).replace(" ", "");
}

/** A share of one: `0.934` → `93.4 %`. */
export function share(value: number): string {
  return `${round(value * 100)} %`;
}

/** How many times: `1.04` → `1.04×`. */
export function times(value: number): string {
  return `${round(value)}×`;
}

/** Milliseconds: `0.84 ms`, `12 ms`, `1.2 s`. */
export function latency(ms: number): string {
  if (ms >= 1_000) return `${round(ms / 1_000)} s`;
  return `${round(ms)} ms`;
}

/** A 64-bit decimal string with its thousands apart; no digit is lost. */
export function int64(value: string): string {
  return BigInt(value).toLocaleString("en");
}

function scaled(value: number, base: number, units: string[]): string {
  let rest = Math.abs(value);
  let unit = 0;
  while (rest >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${round(rest)} ${units[unit]}`.trimEnd();
}

/** Three significant digits at most. */
function round(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return strip(value.toFixed(1));
  return strip(value.toFixed(2));
}

function strip(text: string): string {
  return text.replace(/\.0+$|(\.\d*?)0+$/, "$1");
}
