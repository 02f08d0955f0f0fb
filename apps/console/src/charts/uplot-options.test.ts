import { expect, it } from "vitest";
import { logSplits, timeLabels } from "./uplot-options.ts";

it("a log scale has zero and powers of its base, five labels at most", () => {
  expect(logSplits(0.4, 10)).toEqual([0, 1]);
  expect(logSplits(1_500, 10)).toEqual([0, 10, 100, 1_000]);
  expect(logSplits(5e9, 10)).toEqual([0, 1e3, 1e6, 1e9]);
  // Bytes: 32 B, 1 KiB, 32 KiB, 1 MiB.
  expect(logSplits(2 ** 20, 32)).toEqual([0, 32, 2 ** 10, 2 ** 15, 2 ** 20]);
});

it("labels of the time axis name the day where the time of day does not tell it", () => {
  const at = (day: number, hour = 0, minute = 0, second = 0) =>
    new Date(2026, 10, day, hour, minute, second).getTime() / 1_000;
  expect(timeLabels([at(21, 11, 40, 5)], 5)).toEqual(["11:40:05"]);
  expect(timeLabels([at(21, 0), at(21, 0, 15)], 900)).toEqual(["00:00", "00:15"]);
  expect(timeLabels([at(21, 18), at(22), at(22, 6)], 6 * 3_600)).toEqual([
    "18:00",
    "22 Nov",
    "06:00",
  ]);
  expect(timeLabels([at(21), at(22)], 86_400)).toEqual(["21 Nov", "22 Nov"]);
  expect(timeLabels([at(21)], 50 * 86_400)).toEqual(["21 Nov 2026"]);
});
