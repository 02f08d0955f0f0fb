import { expect, test } from "vitest";
import { changePlan, DIFF_BYTES_MAX, isEmptyPlan, type PlannedChange } from "./change-plan.ts";

function change(address: string, after = "1"): PlannedChange {
  const attributes = [
    { name: "a", before: null, after },
    { name: "b", before: "0", after: "2" },
  ];
  return { address, type: "thing", action: "update", attributes };
}

test("the digest follows the changes, not their order nor the plan's id", () => {
  const one = changePlan("p1", [change("x"), change("y")]);
  const reversed = { ...change("x"), attributes: change("x").attributes.toReversed() };
  expect(changePlan("p2", [change("y"), reversed]).digest).toBe(one.digest);
  expect(changePlan("p1", [change("x"), change("y", "3")]).digest).not.toBe(one.digest);
});

test("two long values that differ past the cut have different digests", () => {
  const long = "v".repeat(10_000);
  const one = changePlan("p", [change("x", `${long}1`)]);
  expect(changePlan("p", [change("x", `${long}2`)]).digest).not.toBe(one.digest);
  expect(one.changes[0]?.attributes[0]?.after).toContain("(8001 more characters)");
});

test("a diff is bounded and says how much is missing", () => {
  const many = Array.from({ length: 200 }, (_, n) => change(`x${n}`, "ü".repeat(500)));
  const { diff } = changePlan("p", many);
  expect(Buffer.byteLength(diff)).toBeLessThanOrEqual(DIFF_BYTES_MAX);
  expect(diff).toMatch(/… cut: \d+ bytes in all\n$/);
  expect(diff).not.toContain("\uFFFD");
});

test("only reads is as good as empty", () => {
  expect(isEmptyPlan(changePlan("p", [{ ...change("x"), action: "read" }]))).toBe(true);
  expect(isEmptyPlan(changePlan("p", [change("x")]))).toBe(false);
});
