/**
 * Packages run no code while they are installed, unless `allowScripts` in package.json says so: npm ignores
 * install scripts (.npmrc), and the launcher runs the allowed ones. Every package with such a script is listed
 * there as allowed or denied, so that a new one is a decision. Every package is pinned by a checksum.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

interface Locked {
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  /** Part of another package's archive, and of its checksum. */
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const { packages } = JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> };
const { allowScripts } = JSON.parse(read("package.json")) as {
  allowScripts: Record<string, boolean>;
};

const complaints: string[] = [];
const unused = new Set(Object.keys(allowScripts));
if (!/^ignore-scripts=true$/m.test(read(".npmrc"))) {
  complaints.push(".npmrc: ignore-scripts=true is missing");
}
for (const [path, { resolved, integrity, link, inBundle, hasInstallScript }] of Object.entries(
  packages,
)) {
  const at = path.lastIndexOf("node_modules/");
  if (at === -1 || link || inBundle) continue;
  const name = path.slice(at + "node_modules/".length);
  // .npmrc leaves it out for packages of a registry, whichever npm is set up with.
  if (resolved !== undefined) complaints.push(`${path}: comes from ${resolved}, not a registry`);
  if (!integrity?.startsWith("sha512-")) complaints.push(`${path}: has no sha512 checksum`);
  if (!hasInstallScript) continue;
  unused.delete(name);
  if (allowScripts[name] === undefined) {
    complaints.push(
      `${path}: has an install script; allow or deny it in package.json's allowScripts`,
    );
  }
}
for (const name of unused) complaints.push(`allowScripts: ${name} has no install script`);

for (const complaint of complaints) console.error(complaint);
console.log(`install scripts: ${Object.keys(packages).length} packages pinned`);
process.exit(complaints.length > 0 ? 1 : 0);
