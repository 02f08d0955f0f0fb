/** `npm run platform-operator` without a running `npm start`; with one, it is the API's program. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { root } from "./settings.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "millrace-operator-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function command(...args: string[]) {
  const { DATABASE_URL: _, ...rest } = process.env;
  const program = join(root, "packages/launcher/src/platform-operator.ts");
  const env = { ...rest, MILLRACE_HOME: home };
  return spawnSync(process.execPath, [program, ...args], { env, encoding: "utf8" });
}

test("a wrong command gets the usage, whether npm start runs or not", () => {
  for (const args of [[], ["frob"]]) {
    const { status, stderr } = command(...args);
    expect(status).toBe(2);
    expect(stderr).toMatch(
      /^usage: npm run platform-operator -- add\|reset\|remove EMAIL, or list/,
    );
  }
});

test("where nothing runs, the state folder is named and how to choose another", () => {
  const { status, stderr } = command("list");
  expect(status).toBe(1);
  expect(stderr).toContain(`Nothing runs in ${home}`);
  expect(stderr).toContain("MILLRACE_HOME");
});
