/**
 * No file that git has, or would add, holds a secret. With `--staged`, as the pre-commit hook calls it (CONTRIBUTING.md):
 * no file of the next commit. It prints where a secret is, and never the secret.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findSecrets } from "../../packages/launcher/src/secrets.ts";
import { stagedFiles } from "../../packages/launcher/src/staged-files.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

function* filesOfTree() {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const listed = execFileSync("git", args, { cwd: root, maxBuffer: 64 << 20 }).toString();
  for (const file of listed.split("\0")) {
    const path = join(root, file);
    if (file === "" || !statSync(path, { throwIfNoEntry: false })?.isFile()) continue;
    yield { file, text: readFileSync(path, "latin1") };
  }
}

let files = 0;
let found = 0;
for (const { file, text } of process.argv[2] === "--staged" ? stagedFiles(root) : filesOfTree()) {
  files += 1;
  for (const { kind, line } of findSecrets(text)) {
    console.error(`${file}:${line}: ${kind}: remove it, and revoke it if it was ever pushed`);
    found += 1;
  }
}
if (found > 0) process.exit(1);
console.log(`secrets: ${files} files, none`);
