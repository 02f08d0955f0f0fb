import { expect, test } from "vitest";
import { roleOptions } from "./role-words.ts";

test("nobody is offered a role above their own", () => {
  expect(roleOptions("operator").map(({ value }) => value)).toEqual([
    "operator",
    "developer",
    "viewer",
  ]);
  expect(roleOptions("owner")).toHaveLength(5);
  expect(roleOptions("admin", ["account:read", "member:write"])).toEqual([]);
  expect(roleOptions(undefined)).toEqual([]);
});
