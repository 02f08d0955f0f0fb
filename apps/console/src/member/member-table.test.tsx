import type { Member } from "@millrace/contract";
import { type Permission, permissionsOf } from "@millrace/domain";
import { beforeEach, expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { MemberTable } from "./member-table.tsx";

const MEMBER = {
  ...{ id: "mem_1", user_id: "usr_1", email: "bo@example.com", name: "Bo" },
  ...{ role: "viewer", custom_role: null, created_at: "2026-11-23T10:00:00Z" },
} satisfies Member;
const CHANGE = "Change the role of bo@example.com";

let api: FakeApi;
beforeEach(() => {
  api = new FakeApi();
});

function show(member: Member): string {
  return api.render(<MemberTable members={[member]} />);
}

/** The organization's only custom role. */
function customRole(permissions: Permission[]): Member["custom_role"] {
  const role = { id: "rol_1", name: "auditor" };
  api.queryClient.setQueryData(api.trpc.role.list.queryKey({}), {
    items: [{ ...role, description: "", permissions, created_at: "2026-11-23T10:00:00Z" }],
  });
  return role;
}

test("offers changes of members who have no more than the user", () => {
  api.signIn("admin");
  expect(show({ ...MEMBER, role: "admin" })).toContain(CHANGE);
  expect(show({ ...MEMBER, role: "owner" })).not.toContain(CHANGE);
  api.signIn("operator");
  expect(show(MEMBER)).not.toContain(CHANGE);
});

test("offers a custom role no change of members with more, even where both narrow the same role", () => {
  api.signInWith("member:read", "member:write");
  expect(show(MEMBER)).not.toContain(CHANGE);
  expect(show(MEMBER)).not.toContain("Remove bo@example.com");
  const wider = customRole(["audit:read"]);
  expect(show({ ...MEMBER, role: "admin", custom_role: wider })).not.toContain(CHANGE);
  const within = customRole(["member:read"]);
  expect(show({ ...MEMBER, custom_role: within })).toContain(CHANGE);
});

test("offers no change of a member whose custom role is not known yet, unless the user has all that it can be", () => {
  const unknown = { ...MEMBER, custom_role: { id: "rol_1", name: "auditor" } };
  api.signInWith("member:read", "member:write");
  expect(show(unknown)).not.toContain(CHANGE);
  api.signInWith(...permissionsOf("viewer"), "member:write");
  expect(show(unknown)).toContain(CHANGE);
});
