import { describe, expect, it } from "vitest";
import { checkCounts, checkLines } from "./streams-history.ts";

const input = ["a/0/0", "a/0/1", "b/0/2"].map((value) => ({ partition: 0, key: "", value }));
const output = (...records: [string, number][]) =>
  records.map(([key, count]) => ({ partition: 0, key, value: `${count}` }));

describe("counts of windows", () => {
  it("accepts each count once and in order", () => {
    expect(checkCounts(input, output(["a/0", 1], ["b/0", 1], ["a/0", 2]))).toEqual([]);
  });

  it("finds a lost, a repeated and an invented count", () => {
    expect(checkCounts(input, output(["a/0", 1], ["b/0", 1]))).toEqual(["a/0: counted 1 of 2"]);
    expect(checkCounts(input, output(["a/0", 1], ["a/0", 1], ["a/0", 2], ["b/0", 1]))).toEqual([
      "a/0: 1 follows 1",
    ]);
    expect(checkCounts(input, output(["a/0", 1], ["a/0", 2], ["b/0", 1], ["c/0", 1]))).toEqual([
      "c/0: not of the input",
    ]);
  });

  it("finds a record that the input has twice", () => {
    const twice = [...input, ...input.slice(2)];
    expect(checkCounts(twice, output(["a/0", 1], ["a/0", 2], ["b/0", 1], ["b/0", 2]))).toEqual([
      "the input has record 2 twice",
    ]);
  });
});

describe("lines of a file", () => {
  const lines = (...numbers: number[]) => numbers.map((number) => `line ${number}`);

  it("accepts repeated lines after a restart only", () => {
    expect(checkLines("f", lines(0, 1, 2, 1, 2, 3), 4, 1)).toEqual({
      breaches: [],
      jumps: 1,
      duplicates: 2,
    });
    expect(checkLines("f", lines(0, 1, 2, 1, 2, 3), 4, 0).breaches).toHaveLength(1);
  });

  it("finds lost and foreign lines", () => {
    expect(checkLines("f", lines(0, 2), 3, 0).breaches).toEqual(["f: line 2 where 1 is due"]);
    expect(checkLines("f", lines(0, 1), 3, 0).breaches).toEqual(["f: 2 of 3 lines"]);
    expect(checkLines("f", ["li"], 0, 0).breaches).toEqual(["f: not a line of the file"]);
  });

  it("splits two lines that a dying worker left in one", () => {
    expect(checkLines("f", ["line 0", "line 1line 1"], 2, 1).breaches).toEqual([]);
  });
});
