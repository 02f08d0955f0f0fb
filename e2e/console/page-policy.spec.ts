/** The content security policy of pages, in a real browser. Violations on other pages fail their own tests. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import { credentials, home } from "../product.ts";
import { test } from "./first-try-fails.ts";

test.use({ baseURL: credentials.consoleUrl });

const REPORTED = "a page violated its content security policy";
const PAGES = ["/clusters", "/clusters/new", "/environments", "/api-keys", "/audit", "/nowhere"];

/** Collects violations from before a page's first script on. */
async function violationsOf(page: Page): Promise<string[]> {
  const violations: string[] = [];
  await page.exposeFunction("reportViolation", (text: string) => violations.push(text));
  await page.addInitScript(
    "addEventListener('securitypolicyviolation', (e) => reportViolation(e.effectiveDirective + ' ' + e.blockedURI))",
  );
  return violations;
}

test("every page works under its policy, and injected scripts do not run", async ({ page }) => {
  const violations = await violationsOf(page);
  const nonces = new Set<string>();

  await test.step("the policy allows scripts by a nonce alone, another one each time", async () => {
    for (let visit = 0; visit < 2; visit += 1) {
      const answer = await page.request.get("/sign-in");
      const headers = answer.headers();
      const policy = headers["content-security-policy"] ?? "";
      const [, nonce = ""] = /script-src 'nonce-([^']+)' 'strict-dynamic';/.exec(policy) ?? [];
      expect(nonce.length).toBeGreaterThan(20);
      nonces.add(nonce);
      const scripts = (await answer.text()).match(/<script\b[^>]*>/g) ?? [];
      expect(scripts.length).toBeGreaterThan(0);
      for (const script of scripts) expect(script).toContain(`nonce="${nonce}"`);
      expect(policy).toContain("frame-ancestors 'none'");
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["cross-origin-opener-policy"]).toBe("same-origin");
      expect(headers["referrer-policy"]).toBe("same-origin");
    }
    expect(nonces.size).toBe(2);
  });

  await test.step("pages work", async () => {
    await page.goto("/sign-in");
    await page.getByLabel("Email").fill(credentials.email);
    await page.getByRole("textbox", { name: "Password" }).fill(credentials.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
    for (const path of PAGES) {
      await page.goto(path);
      await expect(page.getByRole("heading").first()).toBeVisible();
    }
    expect(violations).toEqual([]);
  });

  await test.step("an injected script is stopped and reported", async () => {
    const reports = () => readFileSync(join(home, "logs/api.log"), "utf8").split(REPORTED).length;
    const before = reports();
    await page.evaluate(`
      document.body.insertAdjacentHTML("beforeend",
        "<img src=x: onerror='top.injected = true'>" +
        "<iframe srcdoc='<script>top.injected = true</script>'></iframe>");
    `);
    await expect.poll(reports).toBeGreaterThan(before);
    await expect.poll(() => violations.some((each) => each.startsWith("script-src"))).toBe(true);
    expect(await page.evaluate("window.injected")).toBeUndefined();
  });
});
