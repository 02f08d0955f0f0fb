/** Counts of tests, read from what the runners print. */

/** How many tests ended which way. */
export interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

/** vitest: `Tests  1 failed | 12 passed | 2 skipped (15)`, behind turbo's `package:task:` prefix. */
const VITEST = /(?:^|: ) *Tests +((?:\d+ \w+(?: \| )?)+) \(\d+\)/;
/** cargo: `test result: ok. 5 passed; 0 failed; 1 ignored; …`. */
const CARGO = /test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/;
/** Playwright's closing lines: `  12 passed (34.5s)`. */
const PLAYWRIGHT =
  /(?:^|: ) +(\d+) (passed|failed|flaky|skipped|did not run|interrupted)(?: \(.*\))?$/;

/** Adds up every runner's summary in a text. */
export function tallyOf(output: string): Tally {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 };
  for (const line of output.split("\n")) {
    const vitest = VITEST.exec(line);
    if (vitest?.[1] !== undefined) {
      for (const part of vitest[1].split(" | ")) {
        const [count, how] = part.split(" ");
        add(tally, how as string, Number(count));
      }
      continue;
    }
    const cargo = CARGO.exec(line);
    if (cargo) {
      add(tally, "passed", Number(cargo[1]));
      add(tally, "failed", Number(cargo[2]));
      add(tally, "skipped", Number(cargo[3]));
      continue;
    }
    const playwright = PLAYWRIGHT.exec(line);
    if (playwright) add(tally, playwright[2] as string, Number(playwright[1]));
  }
  return tally;
}

/** What Playwright calls flaky passed on its second try. */
function add(tally: Tally, how: string, count: number): void {
  if (how === "passed" || how === "flaky") tally.passed += count;
  else if (how === "skipped" || how === "todo" || how === "ignored") tally.skipped += count;
  else tally.failed += count;
}
