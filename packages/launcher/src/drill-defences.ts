/**
 * `npm run drill:defences`: removes defences from the code, one at a time, and runs the test that claims to notice. A test
 * that still passes is worth nothing. Changes files of this clone and puts them back; it refuses to start where git sees
 * changes.
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
  const noticedBy = await testsWithout(defence);
  const check = defence.check === undefined ? "–" : String(defence.check);
  const result = noticedBy[0] ?? "NOBODY NOTICES";
  if (noticedBy.length === 0) unnoticed += 1;
  console.log(`${check.padStart(2)}  ${defence.name}\n      ${noticedBy.length} failed: ${result}`);
}
console.log(`${DEFENCES.length - unnoticed} of ${DEFENCES.length} removed defences were noticed`);
process.exit(unnoticed === 0 ? 0 : 1);

/** The tests that fail without the defence. Throws where it is not in its file, or the tests cannot be run. */
async function testsWithout(defence: Defence): Promise<string[]> {
  const file = join(root, defence.file);
  const whole = readFileSync(file, "utf8");
  if (whole.split(defence.code).length !== 2) {
    throw new Error(`${defence.file} does not have this code once: ${defence.code}`);
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
    const [command = "", ...args] = defence.test;
    const { code, output } = await run(command, args, {
      cwd: join(root, defence.folder),
      title: defence.name,
      secondsMax: TEST_SECONDS_MAX,
    });
    const { failed } = troubledTestsOf(output);
    if (code !== 0 && failed.length === 0) throw new Error(`no test has failed:\n${output}`);
    return failed;
  } finally {
    process.off("SIGINT", interrupted);
    process.off("SIGTERM", interrupted);
    restore();
  }
}
