/**
 * House rules that no linter knows: sizes, file names, banned words, the fixed top level. The
 * exception list beside this file may only shrink: an entry that is no longer needed fails too.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Lines a file may have, tests not counted. */
const FILE_LINES_MAX: Record<string, number> = {
  ".rs": 800,
  ".ts": 500,
  ".tsx": 500,
  ".mjs": 500,
  ".go": 500,
};
const TOP_LEVEL = new Set(["apps", "packages", "dataplane", "infra", "migrations", "e2e"]);
const VAGUE_NAMES = /^(utils?|helpers?|common|shared|misc)([.-]|$)/;
/** Words that have no place in what we ship; split so that this file does not find itself. */
const BANNED_WORDS: [RegExp, string][] = [
  [new RegExp(["FIX", "ME"].join("")), "finish it, or name it in README's list"],
  [new RegExp(["\\bX", "XX\\b"].join("")), "finish it, or name it in README's list"],
  [new RegExp(["TO", "DO\\b"].join("")), "finish it, or name it in README's list"],
  [new RegExp(["/wo", "rk/|/ro", "ot/|/tmp/b", "ash"].join("")), "a path of one machine"],
  [new RegExp(["\\bsub", "agent\\b"].join(""), "i"), "the project speaks of itself alone"],
];
/** Words of our own for what has a standard term, in the control plane's code. */
const PRIVATE_WORDS: [RegExp, string][] = [
  [/\banew\b/i, "again; restart, re-create"],
  [/\bmend(s|ed|ing)?\b/i, "fix, repair"],
  [/fate\b/i, "deletion, outcome"],
  [/wish(es)?\b/i, "request, override"],
  [/\bjudge/i, "validate, check"],
];
const CONTROL_PLANE = /^(apps|packages|infra|e2e)\/.*\.(tsx?|go|sh)$/;
/** Files whose job is to be long or to quote: locks, pictures, licences, generated text. */
const UNREAD =
  /(^|\/)(package-lock\.json|Cargo\.lock|go\.sum|LICENSE)$|\.(png|svg|snap|ico|woff2?|bin)$|\.gen\.go$/;

const exceptions = JSON.parse(
  readFileSync(new URL("tidy-exceptions.json", import.meta.url), "utf8"),
) as { longFiles: Record<string, number> };
const unusedExceptions = new Set(Object.keys(exceptions.longFiles));
const complaints: string[] = [];
/** Names of supervised tasks that code of the data plane spawns. */
const spawnedTasks = new Set<string>();

const listed = execFileSync(
  "git",
  ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
  { cwd: root, maxBuffer: 64 << 20 },
);
const files = listed.toString().split("\0").filter(exists);
for (const file of files) {
  checkPlace(file);
  if (UNREAD.test(file)) continue;
  const text = readFileSync(join(root, file), "utf8");
  checkLength(file, text);
  checkWords(file, text);
  checkSpawns(file, text);
}
checkTasks();
for (const file of unusedExceptions) {
  complaints.push(`${file}: no longer needs its exception; take it out of tidy-exceptions.json`);
}

for (const complaint of complaints) console.error(complaint);
if (complaints.length > 0) process.exit(1);
console.log(`tidy: ${files.length} files, ${Object.keys(exceptions.longFiles).length} exceptions`);

function exists(file: string): boolean {
  return file !== "" && (statSync(join(root, file), { throwIfNoEntry: false })?.isFile() ?? false);
}

function checkPlace(file: string): void {
  const top = file.split("/", 1)[0] as string;
  if (file.includes("/") && !top.startsWith(".") && !TOP_LEVEL.has(top)) {
    complaints.push(`${file}: the top level is fixed: ${[...TOP_LEVEL].join(", ")}`);
  }
  if (/\.(rs|tsx?|mjs|go)$/.test(file) && VAGUE_NAMES.test(basename(file))) {
    complaints.push(`${file}: name the file for its noun`);
  }
}

function checkLength(file: string, text: string): void {
  const max = FILE_LINES_MAX[extname(file)];
  if (max === undefined || isTest(file)) return;
  const lines = (extname(file) === ".rs" ? withoutTests(text) : text).split("\n").length - 1;
  const allowed = exceptions.longFiles[file];
  if (allowed === undefined) {
    if (lines > max)
      complaints.push(`${file}: ${lines} lines, at most ${max}: split it by subject`);
    return;
  }
  if (lines > allowed)
    complaints.push(`${file}: grew to ${lines} lines over its exception ${allowed}`);
  if (lines > max) unusedExceptions.delete(file);
}

function isTest(file: string): boolean {
  return /(^|\/)(tests?|e2e|benches)\/|\/tests\.rs$|_tests?\.rs$|_test\.go$|\.(test|spec)\.tsx?$/.test(
    file,
  );
}

/** A Rust file without its trailing test module. */
function withoutTests(text: string): string {
  const at = text.search(/^#\[cfg\(test\)\]\s*\nmod \w+ \{/m);
  return at < 0 ? text : text.slice(0, at);
}

function checkWords(file: string, text: string): void {
  if (file.startsWith(".ci/gates/")) return;
  text.split("\n").forEach((line, index) => {
    const words = CONTROL_PLANE.test(file) ? [...BANNED_WORDS, ...PRIVATE_WORDS] : BANNED_WORDS;
    for (const [word, why] of words) {
      if (word.test(line)) complaints.push(`${file}:${index + 1}: ${word.source}: ${why}`);
    }
  });
}

/**
 * A task that nobody awaits is spawned by the supervisor, so that its panic ends the broker. Any
 * other spawn says in the comment above it why it needs none: "Not supervised: …".
 */
function checkSpawns(file: string, text: string): void {
  if (!/^dataplane\/crates\/[^/]+\/src\/.*\.rs$/.test(file) || isTest(file)) return;
  if (/\/(properties|millrace-testkit)[/.]/.test(file)) return;
  const code = withoutTests(text);
  for (const [, task = ""] of code.matchAll(/\bTask::(\w+)/g)) spawnedTasks.add(task);
  for (const spawn of code.matchAll(
    /(?:\b(?:tokio|task|thread)::spawn|\.spawn(?:_on|_thread)?)\(/g,
  )) {
    const argument = code.slice(spawn.index, spawn.index + 120);
    const above = code.slice(0, spawn.index).split("\n").slice(-3).join("\n");
    if (/\bTask::\w|\btask,/.test(argument) || above.includes("// Not supervised: ")) continue;
    const line = code.slice(0, spawn.index).split("\n").length;
    complaints.push(`${file}:${line}: spawn it by the Supervisor, or say "// Not supervised: why"`);
  }
}

/** Each task of the list is spawned somewhere: the test that makes every one panic relies on it. */
function checkTasks(): void {
  const file = "dataplane/crates/millrace-tasks/src/task.rs";
  const list = readFileSync(join(root, file), "utf8");
  for (const [, task = ""] of list.matchAll(/^ {4}(\w+) = "/gm)) {
    if (!spawnedTasks.has(task)) complaints.push(`${file}: nothing spawns ${task}: remove it`);
  }
}
