import { expect, test } from "vitest";
import { CUSTOM_ROLE_PERMISSIONS, grants, leastRoleWith, permissionsIn } from "./custom-role.ts";
import { newId } from "./id.ts";
import { PERMISSIONS, permissionsOf, ROLES } from "./role.ts";

test("the least role with a role's own permissions grants the same", () => {
  for (const role of ROLES) {
    const least = leastRoleWith([...permissionsOf(role)]);
    expect(permissionsOf(least)).toEqual(permissionsOf(role));
  }
  expect(leastRoleWith([])).toBe("viewer");
  expect(leastRoleWith(["account:read", "topic:write"])).toBe("developer");
  expect(leastRoleWith(["audit:read"])).toBe("admin");
  // Nobody is an owner by a custom role.
  expect(leastRoleWith(CUSTOM_ROLE_PERMISSIONS)).toBe("admin");
});

test("a custom role grants its own permissions and nothing else of the role that it narrows", () => {
  const customRole = { id: newId("rol"), name: "auditor", permissions: ["audit:read"] as const };
  const grant = { role: leastRoleWith(customRole.permissions), customRole };
  const granted = PERMISSIONS.filter((permission) => grants(grant, permission));
  expect(granted).toEqual(["audit:read"]);
  expect(permissionsIn(grant)).toEqual(["audit:read"]);
});
