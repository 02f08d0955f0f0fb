import type { Access, AccessReview } from "@millrace/contract";
import { beforeEach, expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { AccessReviewPage } from "./access-review-page.tsx";

const MEMBER: Access = {
  ...{ kind: "member", id: "mem_1", name: "grace@example.com", role: "admin" },
  ...{
    custom_role: { id: "rol_1", name: "auditor" },
    permissions: ["audit:read"],
    expires_at: null,
  },
  ...{ created_at: "2026-01-23T10:00:00.000Z", last_used_at: null, second_factor: false },
  ...{ sign_in: ["password", "single_sign_on"], domains: [], disabled: false },
  findings: ["never_used", "no_second_factor"],
};
const REVIEWED: AccessReview["last_review"] = {
  ...{ id: "rev_1", reviewed_at: "2026-11-20T10:00:00.000Z" },
  reviewed_by: { kind: "user", id: "usr_1", name: "ada@example.com" },
  ...{ digest: "d", complete: true },
  counts: {
    total: 1,
    kinds: { member: 1, service_account: 0, api_key: 0, invitation: 0, single_sign_on: 0 },
    findings: { owner: 0, never_used: 1, unused: 0, no_second_factor: 1, default_admin: 0 },
  },
};
let api: FakeApi;

beforeEach(() => {
  api = new FakeApi();
});

function show(last_review: AccessReview["last_review"]): string {
  const { trpc, queryClient } = api;
  const review = { items: [MEMBER], complete: true, digest: "d", last_review };
  queryClient.setQueryData(trpc.accessReview.get.queryKey({}), review);
  return api.render(<AccessReviewPage />);
}

test("shows who has access, how they sign in, and what to look at", () => {
  api.signIn("admin");
  const text = show(null);
  const parts = [
    "grace@example.com",
    "auditor",
    "Only audit:read",
    "password, single sign-on",
    "Never used",
  ];
  for (const part of [...parts, "No second factor", "Not reviewed yet", "Mark as reviewed"]) {
    expect(text).toContain(part);
  }
  expect(text).toContain('href="/v1/access-review/export"');
});

test("says who reviewed it last", () => {
  api.signIn("owner");
  expect(show(REVIEWED)).toContain("by ada@example.com");
});

test("a role that may not review is told who may", () => {
  api.signIn("operator");
  const text = show(null);
  expect(text).toContain("access:review");
  expect(text).not.toContain("grace@example.com");
});
