import { expect, test, vi } from "vitest";
import { RANGE_MS_MAX } from "./chart-range.ts";
import { draftOf, rangeOf } from "./custom-range.ts";

vi.mock("next/navigation", () => ({}));

const DAY_MS = 86_400_000;
const now = new Date(2026, 10, 21, 12).getTime();
const between = (fromMs: number, toMs: number) =>
  rangeOf(draftOf({ from: now + fromMs, to: now + toMs }), now);

test("what inputs show of a range is the range again, in whole seconds", () => {
  expect(draftOf({ from: new Date(2026, 2, 1, 4, 5, 6).getTime() + 789, to: now }).from).toBe(
    "2026-03-01T04:05:06",
  );
  expect(between(-DAY_MS + 400, -400)).toEqual({ range: { from: now - DAY_MS, to: now } });
  expect(between(-RANGE_MS_MAX, 0)).toEqual({ range: { from: now - RANGE_MS_MAX, to: now } });
});

test("minutes do without seconds, as browsers leave them out", () => {
  const from = new Date(2026, 10, 21, 11, 40).getTime();
  expect(rangeOf({ from: "2026-11-21T11:40", to: "2026-11-21T11:41" }, now)).toEqual({
    range: { from, to: from + 60_000 },
  });
});

test.each([
  [-DAY_MS, -DAY_MS, "to", "Enter an end after the start."],
  [-1_000, -2_000, "to", "Enter an end after the start."],
  [0, 1_000, "from", "Enter a start in the past."],
  [-RANGE_MS_MAX - 1_000, 0, "from", "A range has at most 400 days. Enter a later start."],
  [-2 * RANGE_MS_MAX, -RANGE_MS_MAX, "to", "Metrics are kept for 400 days. Enter a later end."],
])("from %d to %d ms is refused at `%s`: %s", (fromMs, toMs, end, message) => {
  expect(between(fromMs, toMs)).toEqual({ errors: { [end]: message } });
});

test("each end that is missing is named", () => {
  const missing = "Enter a date and a time.";
  expect(rangeOf({ from: "", to: "" }, now)).toEqual({ errors: { from: missing, to: missing } });
  expect(rangeOf({ from: "2026-11-21T11:40", to: "" }, now)).toEqual({ errors: { to: missing } });
});
