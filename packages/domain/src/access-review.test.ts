import { expect, test } from "vitest";
import {
  ACCESS_UNUSED_DAYS,
  type Access,
  type AccessReviewCounts,
  completeCounts,
  countAccess,
  findingsOf,
} from "./access-review.ts";
import { newId } from "./id.ts";

const NOW = new Date("2026-11-23T12:00:00Z");
const daysAgo = (days: number) => new Date(NOW.getTime() - days * 24 * 3_600_000);
const MEMBER: Access = {
  ...{ kind: "member", id: newId("mem"), name: "ada@example.com", role: "viewer" },
  ...{ customRole: undefined, permissions: undefined, expiresAt: undefined, isDisabled: false },
  domains: [],
  ...{ createdAt: daysAgo(200), lastUsedAt: daysAgo(1), hasSecondFactor: true },
  signIn: ["password"],
};

test("access that is used, and needs more than a password, is unremarkable", () => {
  expect(findingsOf(MEMBER, NOW)).toEqual([]);
  expect(findingsOf({ ...MEMBER, lastUsedAt: daysAgo(ACCESS_UNUSED_DAYS - 1) }, NOW)).toEqual([]);
});

test.each<[string, Partial<Access>, string[]]>([
  ["an owner", { role: "owner" }, ["owner"]],
  ["a narrowed key of an owner", { role: "owner", permissions: ["topic:read"] }, []],
  ["a last use 90 days ago", { lastUsedAt: daysAgo(ACCESS_UNUSED_DAYS) }, ["unused"]],
  ["no use at all", { lastUsedAt: undefined }, ["never_used"]],
  ["an invitation", { kind: "invitation", lastUsedAt: undefined }, []],
  ["a password alone", { hasSecondFactor: false }, ["no_second_factor"]],
  ["single sign-on alone", { hasSecondFactor: false, signIn: ["single_sign_on"] }, []],
  ["an admin", { role: "admin" }, []],
  ["single sign-on", { kind: "single_sign_on", lastUsedAt: undefined }, []],
  [
    "single sign-on that makes admins",
    { kind: "single_sign_on", role: "admin", lastUsedAt: undefined },
    ["default_admin"],
  ],
])("%s", (_, change, findings) => {
  expect(findingsOf({ ...MEMBER, ...change }, NOW)).toEqual(findings);
});

test("counts by kind and finding", () => {
  const key: Access = { ...MEMBER, kind: "api_key", role: "owner", lastUsedAt: undefined };
  expect(countAccess([MEMBER, key], NOW)).toEqual({
    total: 2,
    kinds: { member: 1, service_account: 0, api_key: 1, invitation: 0, single_sign_on: 0 },
    findings: { owner: 1, never_used: 1, unused: 0, no_second_factor: 0, default_admin: 0 },
  });
});

test("counts of a version that knew fewer kinds and findings have zero for the others", () => {
  const stored = { total: 1, kinds: { member: 1 }, findings: { owner: 1 } };
  expect(completeCounts(stored as unknown as AccessReviewCounts)).toEqual({
    total: 1,
    kinds: { member: 1, service_account: 0, api_key: 0, invitation: 0, single_sign_on: 0 },
    findings: { owner: 1, never_used: 0, unused: 0, no_second_factor: 0, default_admin: 0 },
  });
});
