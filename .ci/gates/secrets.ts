/**
 * No file that git has, or would add, holds a secret. Also the pre-commit hook, see CONTRIBUTING.md. It prints where a
 * secret is, and never the secret.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findSecrets } from "../../packages/launcher/src/secrets.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const listed = execFileSync(
  "git",
  ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
  { cwd: root, maxBuffer: 64 << 20 },
);
const files = listed
  .toString()
  .split("\0")
  .filter((file) => file !== "" && statSync(join(root, file), { throwIfNoEntry: false })?.isFile());

let found = 0;
for (const file of files) {
  for (const { kind, line } of findSecrets(readFileSync(join(root, file), "latin1"))) {
    console.error(`${file}:${line}: ${kind}: remove it, and revoke it if it was ever pushed`);
    found += 1;
  }
}
if (found > 0) process.exit(1);
console.log(`secrets: ${files.length} files, none`);
