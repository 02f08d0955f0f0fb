/** What every page must pass: no serious accessibility fault, no error in the browser's console. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

const pictures = join(import.meta.dirname, "../../test-results/pictures");

const SCHEMES = ["dark", "light"] as const;

/** Takes the page's pictures and checks it, in light and dark. */
export async function checkPage(page: Page, name: string): Promise<void> {
  for (const scheme of SCHEMES) {
    await page.emulateMedia({ colorScheme: scheme });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", scheme);
    await checkScheme(page, name, scheme);
  }
}

async function checkScheme(
  page: Page,
  name: string,
  scheme: (typeof SCHEMES)[number],
): Promise<void> {
  mkdirSync(pictures, { recursive: true });
  // What sticks to the window's edges would lie across the middle of the picture.
  await page.evaluate("scrollTo(0, 0)");
  await page.screenshot({
    path: join(pictures, `${name}-${scheme}.png`),
    fullPage: true,
    animations: "disabled",
  });
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`);
  expect.soft(serious, `${name} (${scheme}): serious accessibility faults`).toEqual([]);
}

/**
 * Collects what the browser complains about. A refused sign-in is a 401 that belongs there, a
 * refused value a 422, a refused deletion a 409.
 */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (401|409|422)/.test(message.text()))
      complaints.push(`${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  return complaints;
}
