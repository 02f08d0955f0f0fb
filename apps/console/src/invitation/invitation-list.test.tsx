import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { InvitationList } from "./invitation-list.tsx";

/** The page for somebody, with one invitation of a viewer. */
function show(api: FakeApi): string {
  api.queryClient.setQueryData(api.trpc.invitation.list.queryKey({ page_size: 100 }), {
    items: [
      {
        ...{ id: "inv_1", email: "bo@example.com", role: "viewer" as const },
        invited_by: { kind: "user" as const, id: "usr_1", name: "Ada" },
        created_at: "2026-11-23T10:00:00Z",
        expires_at: "2026-11-30T10:00:00Z",
      },
    ],
  });
  return api.render(<InvitationList />);
}

test("offers to revoke invitations of roles that have no more than the user", () => {
  const api = new FakeApi();
  api.signIn("admin");
  expect(show(api)).toContain("Revoke invitation bo@example.com");
  api.signInWith("member:read", "member:write");
  expect(show(api)).toContain("bo@example.com");
  expect(show(api)).not.toContain("Revoke invitation bo@example.com");
});
