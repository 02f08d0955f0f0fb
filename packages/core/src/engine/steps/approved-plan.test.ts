import { changePlan, type PlannedChange } from "@millrace/provisioner";
import { describe, expect, test } from "vitest";
import { isWithinApproval } from "./approved-plan.ts";

function change(address: string, action: PlannedChange["action"], after = "1"): PlannedChange {
  const attributes = [{ name: "size", before: null, after }];
  return { address, type: "volume", action, attributes };
}

const approved = changePlan("a", [change("x", "create"), change("y", "update", "250")]);

test.each([
  ["the same plan", [change("x", "create"), change("y", "update", "250")], true],
  ["what is left of it", [change("y", "update", "250")], true],
  ["nothing", [], true],
  ["what was made in the last instant, taken on record", [change("x", "import")], true],
  ["another value", [change("y", "update", "500")], false],
  ["another action at the same place", [change("x", "replace")], false],
  ["a deletion that nobody saw", [change("x", "delete")], false],
  ["something new", [change("z", "create")], false],
  ["another kind of thing at that address", [{ ...change("x", "create"), type: "disk" }], false],
])("%s", (_, changes, covered) => {
  expect(isWithinApproval(changePlan("b", changes), approved)).toBe(covered);
});

describe("what is taken back", () => {
  const [SSH, KAFKA] = ["tcp 22-22 0.0.0.0/0", "tcp 9092-9092 10.9.0.0/16"];
  const group = (action: PlannedChange["action"], ...rules: readonly string[]) => ({
    ...{ address: "group", type: "aws_security_group", action },
    attributes: rules.map((before) => ({ name: "ingress", before, after: null })),
  });
  const seen = changePlan("a", [group("update", SSH, KAFKA)]);

  test.each([
    ["as it was seen", group("update", KAFKA, SSH), seen, true],
    ["in part, the rest being gone", group("update", KAFKA), seen, true],
    [
      "with a rule that nobody saw",
      group("update", SSH, KAFKA),
      changePlan("a", [group("update", SSH)]),
      false,
    ],
    ["while what was made is taken on record", group("import", SSH), seen, false],
    [
      "from what was to be made, and is there",
      group("import", SSH),
      changePlan("a", [group("create")]),
      false,
    ],
  ] as const)("%s", (_, change, agreed, covered) => {
    expect(isWithinApproval(changePlan("b", [change]), agreed)).toBe(covered);
  });

  test("with a tag that has become another one", () => {
    const tagged = (before: string) =>
      changePlan("p", [
        {
          ...group("update"),
          attributes: [{ name: "tags.owner", before, after: null }],
        },
      ]);
    expect(isWithinApproval(tagged("ours"), tagged("ours"))).toBe(true);
    expect(isWithinApproval(tagged("theirs"), tagged("ours"))).toBe(false);
  });
});

test("what was to be known later may be anything", () => {
  const before = changePlan("a", [change("x", "create", "(known after apply)")]);
  expect(isWithinApproval(changePlan("b", [change("x", "create", "arn:1")]), before)).toBe(true);
});

test("what nobody saw because it was cut away is not approved with the rest", () => {
  const long = "x".repeat(5_000);
  const attributes = Array.from({ length: 250 }, (_, index) => ({
    name: `tag[${index}]`,
    before: null,
    after: "a",
  }));
  const plan = (value: string, last: string) =>
    changePlan("p", [
      change("x", "create", value),
      {
        ...change("y", "create"),
        attributes: [...attributes, { name: "z", before: null, after: last }],
      },
    ]);
  const seen = plan(`${long}1`, "one");
  expect(isWithinApproval(plan(`${long}1`, "one"), seen)).toBe(true);
  expect(isWithinApproval(plan(`${long}2`, "one"), seen)).toBe(false);
  expect(isWithinApproval(plan(`${long}1`, "two"), seen)).toBe(false);
});
