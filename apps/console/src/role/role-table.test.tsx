import type { CustomRole } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { RoleTable } from "./role-table.tsx";

const ROLE: CustomRole = {
  ...{ id: "rol_1", name: "auditor", description: "Reads the audit log" },
  ...{ permissions: ["account:read", "audit:read"], created_at: "2026-11-23T10:00:00Z" },
};

test("shows what a role grants, and offers changes of it to those who have as much", () => {
  const api = new FakeApi();
  api.signIn("admin");
  const html = api.render(<RoleTable roles={[ROLE]} />);
  expect(html).toContain("account:read, audit:read");
  expect(html).toContain("Edit role auditor");
  expect(html).toContain("Delete role auditor");
});

test("offers no change of a role that has more than the user", () => {
  const api = new FakeApi();
  api.signIn("developer");
  const html = api.render(<RoleTable roles={[ROLE]} />);
  expect(html).not.toContain("Edit role auditor");
  expect(html).not.toContain("Delete role auditor");
});
