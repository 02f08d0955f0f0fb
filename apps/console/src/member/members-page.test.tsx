import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { MembersPage } from "./members-page.tsx";

test("a custom role that may not read members is told so", () => {
  const api = new FakeApi();
  api.signInWith("cluster:read");
  const text = api.render(<MembersPage />);
  expect(text).toContain("No permission");
  expect(text).not.toContain("Invite member");
});
