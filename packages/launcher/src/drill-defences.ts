/**
 * `npm run drill:defences`: removes defences from the code, one at a time, and runs the tests that must fail then; with the
 * defence in place they must pass. Edits files of this clone and restores them; it refuses to start where git sees changes.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./command.ts";
import { DEFENCES, type Defence } from "./defences.ts";
import { root } from "./settings.ts";
import { troubledTestsOf } from "./troubled-tests.ts";

const TEST_SECONDS_MAX = 900;

const changes = execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" });
if (changes !== "") {
  console.error(`commit or stash your changes first: this drill edits files\n${changes}`);
  process.exit(2);
}
let unnoticed = 0;
for (const defence of DEFENCES) {
  const failed = await failedWithout(defence);
  const check = defence.check === undefined ? "–" : String(defence.check);
  const result = failed.length === 0 ? "NO TEST FAILED" : `${failed.length} failed: ${failed[0]}`;
  if (failed.length === 0) unnoticed += 1;
  console.log(`${check.padStart(2)}  ${defence.name}\n      ${result}`);
}
console.log(
  `${DEFENCES.length - unnoticed} of ${DEFENCES.length} removed defences made a test fail`,
);
process.exit(unnoticed === 0 ? 0 : 1);

/** The tests that fail without the defence. Throws where it is not in its file, or they cannot be run or fail with it. */
async function failedWithout(defence: Defence): Promise<string[]> {
  const file = join(root, defence.file);
  const whole = readFileSync(file, "utf8");
  if (whole.split(defence.code).length !== 2) {
    throw new Error(`${defence.file} does not have this code once: ${defence.code}`);
  }
  const [broken] = await failedTests(defence);
  if (broken !== undefined) {
    throw new Error(`this test fails with the defence in place, so it proves nothing: ${broken}`);
  }
  const restore = () => writeFileSync(file, whole);
  const interrupted = () => {
    restore();
    process.exit(130);
  };
  process.once("SIGINT", interrupted);
  process.once("SIGTERM", interrupted);
  try {
    writeFileSync(
      file,
      whole.replace(defence.code, () => defence.without),
    );
    return await failedTests(defence);
  } finally {
    process.off("SIGINT", interrupted);
    process.off("SIGTERM", interrupted);
    restore();
  }
}

/** The tests that fail now. Throws where they cannot be run. */
async function failedTests(defence: Defence): Promise<string[]> {
  const [command = "", ...args] = defence.test;
  const { code, output } = await run(command, args, {
    cwd: join(root, defence.folder),
    title: defence.name,
    secondsMax: TEST_SECONDS_MAX,
  });
  const { failed } = troubledTestsOf(output);
  if (code !== 0 && failed.length === 0) throw new Error(`the tests could not be run:\n${output}`);
  return failed;
}
