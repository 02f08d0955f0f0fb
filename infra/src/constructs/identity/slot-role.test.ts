import { expect, test } from "vitest";
import { resource, snapshotText, stackOf, statements } from "../../../test/stack-fixture.ts";
import { SlotRole } from "./slot-role.ts";

const STATEMENT = {
  Sid: "Records",
  Effect: "Allow",
  Action: ["s3:GetObject"],
  Resource: ["arn:aws:s3:::bucket/*"],
} as const;

function role() {
  return stackOf((scope) => {
    new SlotRole(scope, "role", {
      name: "test-b0",
      permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/boundary",
      statements: [STATEMENT],
    });
  });
}

test("a role is what the snapshot shows", async () => {
  await expect(snapshotText(role())).toMatchFileSnapshot("slot-role.snap");
});

test("only EC2 takes it, inside the boundary, and it may what it was given", () => {
  const stack = role();
  expect(resource(stack, "aws_iam_role").permissions_boundary).toBe(
    "arn:aws:iam::111122223333:policy/boundary",
  );
  expect(statements(resource(stack, "aws_iam_role"), "assume_role_policy")).toEqual([
    { Effect: "Allow", Principal: { Service: "ec2.amazonaws.com" }, Action: "sts:AssumeRole" },
  ]);
  expect(statements(resource(stack, "aws_iam_role_policy"))).toEqual([STATEMENT]);
});
