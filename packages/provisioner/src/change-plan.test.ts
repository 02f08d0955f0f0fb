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
  expect(one.changes[0]?.attributes[0]?.after).toContain("(8001 more characters, SHA-256 ");
});

test("a diff is bounded and says how much is missing", () => {
  const many = Array.from({ length: 200 }, (_, n) => change(`x${n}`, "ü".repeat(500)));
  const { diff } = changePlan("p", many);
  expect(Buffer.byteLength(diff)).toBeLessThanOrEqual(DIFF_BYTES_MAX);
  expect(diff).toMatch(/… cut: \d+ bytes in all\n$/);
  expect(diff).not.toContain("\uFFFD");
});

test("a plan with only reads counts as empty", () => {
  expect(isEmptyPlan(changePlan("p", [{ ...change("x"), action: "read" }]))).toBe(true);
  expect(isEmptyPlan(changePlan("p", [change("x")]))).toBe(false);
});

test("changes that differ only in the cut part still differ, and a bounded value is not cut again", () => {
  const long = "x".repeat(5_000);
  const [one] = changePlan("p", [change("x", `${long}1`)]).changes;
  const [two] = changePlan("p", [change("x", `${long}2`)]).changes;
  expect(one?.attributes[0]?.after).not.toBe(two?.attributes[0]?.after);
  expect(one?.attributes[0]?.after?.length).toBeLessThan(2_200);
  const attributes = Array.from({ length: 250 }, (_, index) => ({
    name: `tag[${index}]`,
    before: null,
    after: index === 249 ? long : "a",
  }));
  const [many] = changePlan("p", [{ ...change("y"), attributes }]).changes;
  expect(many?.attributes).toHaveLength(201);
  expect(many?.attributes[200]?.after).toMatch(/^50 more attributes, SHA-256 [0-9a-f]{64}$/);
  for (const bounded of [one, many]) {
    expect(bounded && changePlan("p", [bounded]).changes).toEqual([bounded]);
  }
});
