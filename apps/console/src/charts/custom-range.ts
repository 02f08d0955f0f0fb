/** A range as it is typed, in the browser's time zone. Pure, so that it is tested alone. */
import { RANGE_MS_MAX, type Range } from "./chart-range.ts";

export interface RangeDraft {
  /** Local times, as `<input type="datetime-local">` writes them. */
  from: string;
  to: string;
}

export type RangeErrors = Partial<Record<keyof RangeDraft, string>>;

const RANGE_DAYS_MAX = RANGE_MS_MAX / 86_400_000;

/** The range as inputs take it, widened to whole seconds. */
export function draftOf({ from, to }: Range): RangeDraft {
  return { from: inputText(Math.floor(from / 1_000)), to: inputText(Math.ceil(to / 1_000)) };
}

/** The range, or what is wrong with its ends. */
export function rangeOf(
  draft: RangeDraft,
  now: number,
): { range: Range } | { errors: RangeErrors } {
  const range = { from: Date.parse(draft.from), to: Date.parse(draft.to) };
  const missing = "Enter a date and a time.";
  const errors: RangeErrors = {
    ...(Number.isNaN(range.from) && { from: missing }),
    ...(Number.isNaN(range.to) && { to: missing }),
  };
  if (Object.keys(errors).length > 0) return { errors };
  const error = boundsError(range, now);
  return error ? { errors: error } : { range };
}

function boundsError({ from, to }: Range, now: number): RangeErrors | undefined {
  if (from >= to) return { to: "Enter an end after the start." };
  if (from >= now) return { from: "Enter a start in the past." };
  if (to <= now - RANGE_MS_MAX) {
    return { to: `Metrics are kept for ${RANGE_DAYS_MAX} days. Enter a later end.` };
  }
  if (to - from > RANGE_MS_MAX) {
    return { from: `A range has at most ${RANGE_DAYS_MAX} days. Enter a later start.` };
  }
  return undefined;
}

/** `2026-11-21T11:40:05` of seconds since the epoch. */
function inputText(seconds: number): string {
  const at = new Date(seconds * 1_000);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day}T${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":")}`;
}
