/** What every page must pass: no serious accessibility fault, no error in the browser's console. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

const pictures = join(import.meta.dirname, "../../test-results/pictures");

/** Both show the same elements, so that in the second only colours can be at fault. */
const SCHEMES = { dark: [], light: ["color-contrast", "link-in-text-block"] } as const;
type Scheme = keyof typeof SCHEMES;

/** Takes the page's pictures and checks it, in light and dark. */
export async function checkPage(page: Page, name: string): Promise<void> {
  for (const scheme of Object.keys(SCHEMES) as Scheme[]) {
    await page.emulateMedia({ colorScheme: scheme });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", scheme);
    await checkScheme(page, name, scheme);
  }
}

async function checkScheme(page: Page, name: string, scheme: Scheme): Promise<void> {
  mkdirSync(pictures, { recursive: true });
  // What sticks to the window's edges would lie across the middle of the picture.
  await page.evaluate("scrollTo(0, 0)");
  await page.screenshot({
    path: join(pictures, `${name}-${scheme}.png`),
    fullPage: true,
    animations: "disabled",
  });
  // No page has frames of another origin, which alone need a second browser page per check.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
  const rules = SCHEMES[scheme];
  const { violations } = await (rules.length > 0 ? axe.withRules([...rules]) : axe).analyze();
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
