import { describe, expect, it } from "vitest";
import { columnsOf, latest, summaryOf } from "./chart-data.ts";

const line = (label: string, points: [number, number | null][]) => ({
  label,
  color: "red",
  points,
});

describe("columnsOf", () => {
  it("joins lines over all their moments, in order", () => {
    const columns = columnsOf([
      line("a", [
        [2_000, 2],
        [1_000, 1],
      ]),
      line("b", [[3_000, 9]]),
    ]);
    expect(columns).toEqual([
      [1, 2, 3],
      [1, 2, null],
      [null, null, 9],
    ]);
  });

  it("keeps a measured zero apart from nothing measured", () => {
    expect(
      columnsOf([
        line("a", [
          [1_000, 0],
          [2_000, null],
        ]),
      ])[1],
    ).toEqual([0, null]);
  });
});

it("latest skips moments in which nothing was measured", () => {
  expect(
    latest([
      [1, 5],
      [2, null],
    ]),
  ).toBe(5);
  expect(latest([])).toBeUndefined();
});

it("a line has no current value once nothing was measured for a while, as after a pause", () => {
  const paused: [number, number | null][] = [
    [1_000, 7],
    [10_000, null],
    [25_000, null],
  ];
  expect(latest(paused)).toBeUndefined();
  expect(latest(paused.slice(0, 2))).toBe(7);
  expect(summaryOf([line("p99", paused)], String)).toBe("p99: no current data, between 7 and 7");
});

it("the summary says so when there is nothing", () => {
  expect(summaryOf([line("In", [])], String)).toBe("In: no data yet");
  expect(
    summaryOf(
      [
        line("In", [
          [1, 4],
          [2, 2],
        ]),
      ],
      String,
    ),
  ).toBe("In: now 2, between 2 and 4");
});
