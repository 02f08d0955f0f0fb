import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { stagedFiles } from "./staged-files.ts";

let root: string;

function git(...args: string[]): void {
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], {
    cwd: root,
  });
}

function write(file: string, text: string): void {
  writeFileSync(join(root, file), text);
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "millrace-staged-"));
  git("init", "--quiet");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

it("reads what the commit would have, not what the working tree has by now", () => {
  write("key.pem", "staged");
  write("ä b.txt", "staged, too");
  git("add", ".");
  write("key.pem", "cleaned");
  rmSync(join(root, "ä b.txt"));
  write("untracked", "not part of the commit");
  expect(stagedFiles(root)).toEqual([
    { file: "key.pem", text: "staged" },
    { file: "ä b.txt", text: "staged, too" },
  ]);
});

it("reads changed files and no others", () => {
  for (const file of ["changed", "deleted", "kept"]) write(file, "first");
  git("add", ".");
  git("commit", "--quiet", "--no-verify", "--message", "first");
  expect(stagedFiles(root)).toEqual([]);
  write("changed", "second");
  rmSync(join(root, "deleted"));
  git("add", ".");
  expect(stagedFiles(root)).toEqual([{ file: "changed", text: "second" }]);
});
