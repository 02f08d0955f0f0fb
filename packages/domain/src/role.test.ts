import { expect, test } from "vitest";
import { cancelPermission, type OperationKind } from "./operation.ts";
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

test("a viewer changes nothing but their own account", () => {
  for (const permission of PERMISSIONS) {
    if (permission.endsWith(":read")) continue;
    expect(allows("viewer", permission)).toBe(permission === "account:write");
  }
});

test("whoever may see a topic may not for that reason read its records", () => {
  expect(allows("viewer", "topic:read")).toBe(true);
  expect(allows("viewer", "record:read")).toBe(false);
  for (const role of ["owner", "admin", "operator", "developer"] as const) {
    expect([allows(role, "record:read"), allows(role, "record:write")]).toEqual([true, true]);
  }
});

test("nobody covers more than their own role", () => {
  expect(covers("admin", "owner")).toBe(false);
  expect(covers("admin", "admin")).toBe(true);
  expect(covers("owner", "viewer")).toBe(true);
});

test("whoever may start a benchmark may cancel it, and no other operation for that reason", () => {
  for (const role of ROLES) {
    const mayCancel = (kind: OperationKind) =>
      allows(role, "operation:cancel") && allows(role, cancelPermission(kind));
    expect(mayCancel("cluster.benchmark")).toBe(allows(role, "benchmark:run"));
    expect(mayCancel("cluster.update")).toBe(allows(role, "operation:write"));
  }
});
