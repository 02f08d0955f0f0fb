import { expect, it } from "vitest";
import { decades } from "./uplot-options.ts";

it("a log scale has zero and powers of ten, five or six at most", () => {
  expect(decades(0.4)).toEqual([0, 1]);
  expect(decades(1_500)).toEqual([0, 1, 10, 100, 1_000]);
  const large = decades(5e9);
  expect(large.length).toBeLessThanOrEqual(6);
  expect(large.at(-1)).toBeLessThanOrEqual(5e9);
});
