import { expect, it, vi } from "vitest";
import { rangeIn, stepOf, withRange } from "./chart-range.ts";

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
