import { describe, expect, it } from "vitest";
import {
  checkCopied,
  checkEnds,
  checkLeft,
  checkWritten,
  type Transaction,
} from "./transaction-history.ts";

const transaction = (number: number, outcome: Transaction["outcome"], ...sequences: number[]) => ({
  producer: "p",
  number,
  outcome,
  sent: sequences.map((sequence) => ({ partition: 0, sequence })),
});
const seen = (...values: string[]) =>
  values.map((value, offset) => ({ partition: 0, offset, value, at: offset * 1_000 }));

describe("the history of transactions", () => {
  const history = [
    transaction(1, "committed", 0, 1),
    transaction(2, "aborted", 2),
    transaction(3, "unknown", 3, 4),
  ];

  it("is right with or without what is unknown", () => {
    expect(checkWritten(history, seen("p/0/1", "p/1/1"))).toEqual([]);
    expect(checkWritten(history, seen("p/0/1", "p/1/1", "p/3/3", "p/4/3"))).toEqual([]);
  });

  it.for([
    ["lost", ["p/0/1"]],
    ["duplicated", ["p/0/1", "p/1/1", "p/1/1"]],
    ["reordered", ["p/1/1", "p/0/1"]],
    ["aborted, yet visible", ["p/0/1", "p/1/1", "p/2/2"]],
    ["torn", ["p/0/1", "p/1/1", "p/4/3"]],
    ["nobody sent", ["p/0/1", "p/1/1", "q/0/1"]],
  ] as const)("tells what is %s", ([breach, values]) => {
    expect(checkWritten(history, seen(...values)).join("\n")).toContain(breach);
  });

  it.for([
    ["not copied", ["a", "b"], ["a"]],
    ["copied twice", ["a", "b"], ["a", "a", "b"]],
    ["not committed", ["a"], ["a", "b"]],
    ["order differs", ["a", "b"], ["b", "a"]],
  ] as const)("tells which copy is %s", ([breach, from, to]) => {
    expect(checkCopied(seen(...from), seen(...to)).join("\n")).toContain(breach);
    expect(checkCopied(seen(...from), seen(...from))).toEqual([]);
  });

  it("lets retention remove the oldest records, and no others", () => {
    const all = seen("a", "b", "c");
    expect(checkLeft(all, all, 0)).toEqual([]);
    expect(checkLeft(all, all.slice(1), 1_000)).toEqual([]);
    expect(checkLeft(all, [], 3_000)).toEqual([]);
    expect(checkLeft(all, all.slice(1), 0)).toHaveLength(1);
    expect(checkLeft(all, [], 2_000)).toHaveLength(1);
  });

  it.for([
    ["a hole", [0, 2]],
    ["a lost end", [0, 1]],
  ] as const)("tells %s from retention", ([, places]) => {
    const all = seen("a", "b", "c");
    const left = places.map((place) => all[place] as (typeof all)[number]);
    expect(checkLeft(all, left, 3_000)).toHaveLength(1);
    expect(checkLeft(left, all, 3_000)).toHaveLength(1);
  });

  it("tells where readers are blocked", () => {
    expect(checkEnds("t", [{ partition: 0, stable: 3, high: 5, position: 3 }])).toHaveLength(1);
    expect(checkEnds("t", [{ partition: 0, stable: 5, high: 5, position: 4 }])).toHaveLength(1);
    expect(checkEnds("t", [{ partition: 0, stable: 5, high: 5, position: 5 }])).toEqual([]);
  });
});
