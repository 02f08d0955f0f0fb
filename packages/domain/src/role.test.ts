import { expect, test } from "vitest";
import { allows, covers, PERMISSIONS, ROLES } from "./role.ts";

test("each role grants at least what the next one grants", () => {
  for (const [index, role] of ROLES.entries()) {
    const next = ROLES[index + 1];
    if (next === undefined) continue;
    for (const permission of PERMISSIONS) {
      if (allows(next, permission)) expect(allows(role, permission)).toBe(true);
    }
  }
});

test("a viewer changes nothing", () => {
  for (const permission of PERMISSIONS) {
    if (!permission.endsWith(":read")) expect(allows("viewer", permission)).toBe(false);
  }
});

test("nobody covers more than their own role", () => {
  expect(covers("admin", "owner")).toBe(false);
  expect(covers("admin", "admin")).toBe(true);
  expect(covers("owner", "viewer")).toBe(true);
});
