import { expect, it, vi } from "vitest";
import { liveEnd, RANGE_MS_MAX, rangeIn, stepOf, withRange } from "./chart-range.ts";

vi.mock("next/navigation", () => ({}));

const query = (text: string) => rangeIn(new URLSearchParams(text));

it("a range goes into the URL and comes out of it, beside other parts", () => {
  const range = { from: 1_795_000_000_000, to: 1_795_000_060_000 };
  const text = withRange("group=etl&from=1", range);
  expect(query(text)).toEqual(range);
  expect(new URLSearchParams(text).get("group")).toBe("etl");
  expect(withRange(text, undefined)).toBe("group=etl");
});

it("what makes no sense is the live view", () => {
  for (const text of [
    "",
    "from=5",
    "from=9&to=5",
    "from=a&to=b",
    "from=-1&to=99999999",
    "from=0&to=9",
    `from=0&to=${RANGE_MS_MAX + 1}`,
  ]) {
    expect(query(text)).toBeUndefined();
  }
});

it("a range too short to show anything is widened around its middle", () => {
  const range = query(withRange("", { from: 100_000, to: 101_000 }));
  expect(range).toEqual({ from: 95_500, to: 105_500 });
});

it("the step gives about as many points as a chart shows, and never less than the API takes", () => {
  expect(stepOf({ from: 0, to: 10_000 })).toBe(2);
  expect(stepOf({ from: 0, to: 6 * 3_600_000 })).toBe(96);
});

it("the live charts of a quarter of an hour are as fine as the API takes for live", () => {
  expect(stepOf({ from: 0, to: 15 * 60_000 })).toBe(4);
  expect(stepOf({ from: 0, to: 15 * 60_000 + 1 })).toBe(4);
});

it("a range is as long as metrics are kept at most", () => {
  expect(RANGE_MS_MAX).toBe(400 * 86_400_000);
  const range = { from: 1_750_000_000_000, to: 1_750_000_000_000 + RANGE_MS_MAX };
  expect(query(withRange("", range))).toEqual(range);
});

it("a live overview has the interval under way once it was measured, a live chart does not", () => {
  const hour = 3_600_000;
  expect(liveEnd(5 * hour + 1, 16)).toBe(5 * hour + 1);
  // Readings are ten minutes apart at this step.
  expect(liveEnd(5 * hour + 9 * 60_000, 3_600)).toBe(5 * hour);
  expect(liveEnd(5 * hour + 11 * 60_000, 3_600)).toBe(6 * hour);
});
