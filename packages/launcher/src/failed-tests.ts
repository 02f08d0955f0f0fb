/** Which tests failed, read from what the runners print. */

/** vitest: ` FAIL  test/foo.test.ts > suite > name`, and the error on the next line. */
const VITEST = /(?:^|: ) *FAIL +(\S+\.test\.tsx?(?: .*)?)$/;
/** vitest: `⎯⎯⎯ Uncaught Exception ⎯⎯⎯`, and the error on the next line; no test has failed then. */
const VITEST_UNHANDLED = /⎯ ((?:Uncaught|Unhandled) (?:Exception|Rejection|Error)) ⎯/;
/** cargo: `test module::name ... FAILED`. */
const CARGO = /(?:^|: )test (\S+) \.\.\. FAILED$/;
/** go: `--- FAIL: TestName (0.01s)`. */
const GO = /(?:^|: ) *--- FAIL: (\S+)/;
/** Playwright: `  1) [light] › console/foo.spec.ts:12:3 › name ───`. */
const PLAYWRIGHT = /(?:^|: ) +\d+\) (\[.*?) *─*$/;
const TURBO_PREFIX = /^(@[^:]+):[\w:-]+:(?: |$)/;
/** A line of an error, cut. */
const ERROR_CHARS_MAX = 200;

/** One line for each failed test, with its package, and its error where the runner prints it behind the name. */
export function failedTestsOf(output: string): string[] {
  const failed = new Set<string>();
  const lines = output.split("\n");
  for (const [at, line] of lines.entries()) {
    const where = TURBO_PREFIX.exec(line)?.[1];
    const prefix = where === undefined ? "" : `${where} `;
    const name = (CARGO.exec(line) ?? GO.exec(line) ?? PLAYWRIGHT.exec(line))?.[1];
    if (name !== undefined) failed.add(`${prefix}${name}`);
    const vitest = (VITEST.exec(line) ?? VITEST_UNHANDLED.exec(line))?.[1];
    if (vitest === undefined) continue;
    const error = (lines[at + 1] ?? "").replace(TURBO_PREFIX, "").trim();
    failed.add(`${prefix}${vitest}: ${error.slice(0, ERROR_CHARS_MAX)}`);
  }
  return [...failed];
}
