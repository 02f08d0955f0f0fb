import { permissionsOf } from "@millrace/domain";
import { expect, test } from "vitest";
import { roleOptions } from "./role-words.ts";

test("nobody is offered a role that has more than they", () => {
  expect(roleOptions([...permissionsOf("operator")]).map(({ value }) => value)).toEqual([
    "operator",
    "developer",
    "viewer",
  ]);
  expect(roleOptions([...permissionsOf("owner")])).toHaveLength(5);
  expect(roleOptions(["account:read", "member:write"])).toEqual([]);
  expect(roleOptions(undefined)).toEqual([]);
});
