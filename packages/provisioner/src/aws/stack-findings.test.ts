import { expect, test } from "vitest";
import { stackFindings } from "./stack-findings.ts";

const volume = (encrypted: unknown) => ({
  resource: { aws_ebs_volume: { v: { encrypted, size: 10, availability_zone: "eu-central-1a" } } },
});
const plan = (after: object, unknown: object) => ({
  format_version: "1.2",
  resource_changes: [
    {
      ...{ address: "aws_ebs_volume.v", type: "aws_ebs_volume", name: "v", mode: "managed" },
      change: { actions: ["create"], before: null, after, after_unknown: unknown },
    },
  ],
});
const rulesOf = (planJson: unknown, stack: unknown) =>
  stackFindings(planJson, JSON.stringify(stack), { kind: "cluster" })
    .filter(({ rule }) => rule === "encryption-at-rest")
    .map(({ address }) => address);

test("what a plan does not show is seen in the stack", () => {
  const silent = { format_version: "1.2", resource_changes: [] };
  expect(rulesOf(silent, volume(false))).toEqual(["aws_ebs_volume.v"]);
});

test("a finding of both is reported once", () => {
  expect(rulesOf(plan({ encrypted: false }, {}), volume(false))).toHaveLength(1);
});

test("what the plan shows of an ignored type counts in the stack alone", () => {
  const context = { kind: "cluster", ignoredInPlan: () => true } as const;
  const found = stackFindings(plan({ encrypted: false }, {}), '{"resource":{}}', context);
  expect(found).toEqual([]);
});
