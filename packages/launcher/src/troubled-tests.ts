/** Which tests failed, and which passed on their second try only, read from what the runners print. */

/** vitest: ` FAIL  test/foo.test.ts > suite > name`, and the error on the next line that is none of these. */
const VITEST = /(?:^|: ) *FAIL +(\S+\.test\.tsx?(?: .*)?)$/;
/** vitest: `⎯⎯⎯ Uncaught Exception ⎯⎯⎯`, and the error on the next line; no test has failed then. */
const VITEST_UNHANDLED = /⎯ ((?:Uncaught|Unhandled) (?:Exception|Rejection|Error)) ⎯/;
/** vitest with `second-try.ts` of the test kit, and the first try's error on the next line. */
const VITEST_UNSTABLE = /(?:^|: ) *UNSTABLE +(\S+\.test\.tsx?(?: .*)?)$/;
/** cargo: `test module::name ... FAILED`. */
const CARGO = /(?:^|: )test (\S+) \.\.\. FAILED$/;
/** go: `--- FAIL: TestName (0.01s)`. */
const GO = /(?:^|: ) *--- FAIL: (\S+)/;
/** Playwright: `  1) [light] › console/foo.spec.ts:12:3 › name › step ───`, for unstable tests as well. */
const PLAYWRIGHT = /(?:^|: ) +\d+\) (\[.*?) *─*$/;
/** Playwright: `    Error: what`, and what was received: `    +   "color-contrast: button",`. */
const PLAYWRIGHT_ERROR = /(?:^|: ) {4}(?:Error: |\+ +(?="))(.*)$/;
/** Playwright's closing lists: `  1 flaky`, then `    [light] › console/foo.spec.ts:12:3 › name ───`. */
const PLAYWRIGHT_LIST = /(?:^|: ) {2}\d+ (\w+)(?: .*)?$/;
const PLAYWRIGHT_LISTED = /(?:^|: ) {4}(\[.*?) *─*$/;
const TURBO_PREFIX = /^(@[^:]+):[\w:-]+:(?: |$)/;
/** A line of an error, cut. */
const ERROR_CHARS_MAX = 200;
/** Lines behind a failed test in which its error is looked for. */
const ERROR_LINES = 20;

/** Each test with its package, and its error where the runner prints it behind the name. */
export interface TroubledTests {
  failed: string[];
  /** They failed, were tried again, and passed. */
  unstable: string[];
}

export function troubledTestsOf(output: string): TroubledTests {
  const failed = new Set<string>();
  const unstable = new Set<string>();
  const lines = output.split("\n");
  const flaky = flakyOf(lines);
  for (const [at, line] of lines.entries()) {
    const where = TURBO_PREFIX.exec(line)?.[1];
    const prefix = where === undefined ? "" : `${where} `;
    const behind = () => lines.slice(at + 1, at + ERROR_LINES);
    const plain = (CARGO.exec(line) ?? GO.exec(line))?.[1];
    if (plain !== undefined) failed.add(`${prefix}${plain}`);
    const vitest = (VITEST.exec(line) ?? VITEST_UNHANDLED.exec(line))?.[1];
    if (vitest !== undefined) failed.add(`${prefix}${vitest}: ${vitestError(behind())}`);
    const secondTry = VITEST_UNSTABLE.exec(line)?.[1];
    if (secondTry !== undefined) unstable.add(`${prefix}${secondTry}: ${vitestError(behind())}`);
    const browser = PLAYWRIGHT.exec(line)?.[1];
    if (browser !== undefined) {
      const set = flaky.some((name) => browser.startsWith(name)) ? unstable : failed;
      set.add(`${prefix}${browser}${browserError(behind())}`);
    }
  }
  return { failed: [...failed], unstable: [...unstable] };
}

/** Playwright's names of the tests that passed on their second try. */
function flakyOf(lines: string[]): string[] {
  const names: string[] = [];
  let list: string | undefined;
  for (const line of lines) {
    list = PLAYWRIGHT_LIST.exec(line)?.[1] ?? list;
    const name = PLAYWRIGHT_LISTED.exec(line)?.[1];
    if (list === "flaky" && name !== undefined) names.push(name);
  }
  return names;
}

function vitestError(lines: string[]): string {
  const line = lines.find((each) => !VITEST.test(each)) ?? "";
  return cut(line.replace(TURBO_PREFIX, ""));
}

function browserError(lines: string[]): string {
  const parts = lines.flatMap((line) => PLAYWRIGHT_ERROR.exec(line)?.[1] ?? []);
  return parts.length === 0 ? "" : `: ${cut(parts.join(" "))}`;
}

function cut(line: string): string {
  return line.trim().slice(0, ERROR_CHARS_MAX);
}
