/**
 * Migrations are only ever added: one that an earlier commit recorded has been run somewhere, and
 * an edit would leave that database different from a new one.
 */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const cwd = fileURLToPath(new URL("../..", import.meta.url));
const git = (...args: string[]) => execFileSync("git", args, { cwd, encoding: "utf8" });

/** Versions before the first release may still reshape what no user has run. */
const RELEASED = git("tag", "--list", "v*").trim() !== "";

const base = RELEASED ? git("describe", "--tags", "--abbrev=0", "--match", "v*").trim() : "HEAD";
const changed = git("diff", "--name-status", base, "--", "migrations")
  .split("\n")
  .filter((line) => /^[MDR]/.test(line) && line.includes(".sql"));
for (const line of changed) {
  console.error(`${line.replace("\t", " ")}: a migration is never edited; add a new one`);
}
if (changed.length > 0) process.exit(1);
console.log(`migrations: none edited since ${base}`);
