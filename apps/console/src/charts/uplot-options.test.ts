import { expect, it } from "vitest";
import { logSplits } from "./uplot-options.ts";

it("a log scale has zero and powers of its base, five labels at most", () => {
  expect(logSplits(0.4, 10)).toEqual([0, 1]);
  expect(logSplits(1_500, 10)).toEqual([0, 10, 100, 1_000]);
  expect(logSplits(5e9, 10)).toEqual([0, 1e3, 1e6, 1e9]);
  // Bytes: 32 B, 1 KiB, 32 KiB, 1 MiB.
  expect(logSplits(2 ** 20, 32)).toEqual([0, 32, 2 ** 10, 2 ** 15, 2 ** 20]);
});
