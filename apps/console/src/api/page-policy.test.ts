import { expect, test } from "vitest";
import { pagePolicy } from "./page-policy.ts";

test("only scripts with the page's nonce run, and nobody frames it", () => {
  const policy = pagePolicy("abc", false);
  const scripts = policy.split("; ").find((each) => each.startsWith("script-src"));
  expect(scripts).toBe("script-src 'nonce-abc' 'strict-dynamic'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("report-uri /api/csp-reports");
  expect(policy).not.toContain("upgrade-insecure-requests");
  expect(pagePolicy("abc", true)).toContain("upgrade-insecure-requests");
});
