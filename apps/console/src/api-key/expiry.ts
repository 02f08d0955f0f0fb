/** How long a new API key is valid. */

const DAY_MS = 24 * 60 * 60 * 1_000;

export const EXPIRIES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "never", label: "Never" },
] as const;
export type Expiry = (typeof EXPIRIES)[number]["value"];

/** A forgotten key stops working by itself. */
export const DEFAULT_EXPIRY: Expiry = "90";

/** RFC 3339, as the API takes it; undefined for a key that does not expire. */
export function expiresAt(expiry: Expiry, nowMs: number): string | undefined {
  if (expiry === "never") return undefined;
  return new Date(nowMs + Number(expiry) * DAY_MS).toISOString();
}
