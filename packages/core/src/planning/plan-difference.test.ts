import { changePlan, type PlannedChange } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { planDifference, planRemoval } from "./plan-difference.ts";

function made(address: string, attributes: Record<string, string>): PlannedChange {
  return {
    address,
    type: "aws_thing",
    action: "create",
    attributes: Object.entries(attributes).map(([name, after]) => ({ name, before: null, after })),
  };
}

const BEFORE = changePlan("before", [
  made("volume", { size: "20", type: "gp3", iops: "3000" }),
  made("bucket", { name: "b" }),
  made("balancer", { name: "n" }),
]);

test("what both have and both have alike is left out", () => {
  expect(planDifference(BEFORE, BEFORE).changes).toEqual([]);
});

test("a changed attribute is an update, what is new is made, what is gone is removed", () => {
  const after = changePlan("after", [
    made("volume", { size: "40", type: "gp3", throughput: "250" }),
    made("bucket", { name: "b" }),
    made("alarm", { name: "a" }),
  ]);
  const { changes, summary } = planDifference(BEFORE, after);
  expect(summary).toMatchObject({ create: 1, update: 1, delete: 1 });
  expect(changes[0]).toEqual({
    address: "volume",
    type: "aws_thing",
    action: "update",
    attributes: [
      { name: "size", before: "20", after: "40" },
      { name: "iops", before: "3000", after: null },
      { name: "throughput", before: null, after: "250" },
    ],
  });
  expect(changes.map(({ address, action }) => [address, action])).toEqual([
    ["volume", "update"],
    ["alarm", "create"],
    ["balancer", "delete"],
  ]);
});

test("a removal removes all of it", () => {
  expect(planRemoval(BEFORE).summary).toMatchObject({ create: 0, delete: 3 });
});
