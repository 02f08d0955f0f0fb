/** Moments as people read them, in the browser's own time zone. */

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const days = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const precise = new Intl.DateTimeFormat("en-GB", {
  ...{ day: "numeric", month: "short" },
  ...{ hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 },
});

/** `3 hours ago`; `just now` within the minute. */
export function ago(instant: string, now = Date.now()): string {
  const seconds = (new Date(instant).getTime() - now) / 1_000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  }
  return "just now";
}

/** Two units at most: `40 s`, `4 min`, `2 h 10 min`, `3 days`. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 10 && minutes % 60 > 0) return `${hours} h ${minutes % 60} min`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1_440)} days`;
}

/** `21 Nov 2026`. */
export function day(instant: string): string {
  return days.format(new Date(instant));
}

/** `21 Nov 2026, 11:40`. */
export function moment(instant: string): string {
  return absolute.format(new Date(instant));
}

/** `21 Nov 2026, 11:40:05`. */
export function exactMoment(instant: string): string {
  return exact.format(new Date(instant));
}

/** A text with its RFC 3339 times as people read them. */
export function withMoments(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, exactMoment);
}

/** `22 Nov, 19:44:14.123` of milliseconds since the epoch; what no date can hold stays a number. */
export function clockTime(ms: string): string {
  const instant = new Date(Number(ms));
  return Number.isNaN(instant.getTime()) ? `${ms} ms` : precise.format(instant);
}
