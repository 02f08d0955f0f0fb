/**
 * What both commands need before any package is there: plain JavaScript, Node 20, no import but
 * Node's own. It checks the machine, installs the npm packages when the lockfile changed, and then
 * hands over to a TypeScript program under a Node that runs TypeScript.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Room that packages, build output and a small cluster take together, in GiB. */
const FREE_GIB_MIN = 6;
/** The oldest Node that runs TypeScript sources as they are. */
const TYPE_STRIPPING = [22, 18];
const RUST_MIN = [1, 95];
/** Enough for compilers on a busy machine. What is left then ignores the signal, and is killed. */
const GROUP_END_MS_MAX = 3_000;

/** The program in the foreground and, during the first installation, the broker's build. */
const children = new Set();
let askedToStop = false;

/**
 * A service manager signals this process alone, a terminal the whole group, and npm repeats what it gets: so each
 * signal is passed on, and whoever gets one twice must not care. This process ends when its children have ended. npm
 * starts it with the shell's `exec`, because a shell in between would end without passing the signal on.
 */
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    askedToStop = true;
    for (const child of children) child.pass(signal);
  });
}

/** Ends the command with one line that says what is wrong and what to do. */
export function stop(problem, remedy) {
  console.error(`\nmillrace: ${problem}\n  → ${remedy}`);
  process.exit(1);
}

export function say(text) {
  console.log(`\u001b[2m[${new Date().toISOString().slice(11, 19)}]\u001b[0m ${text}`);
}

/**
 * Checks the machine and installs the packages; returns the Node to go on with. `cargoBuild` are cargo's arguments that
 * compile what the command needs.
 */
export async function prepare(cargoBuild) {
  process.chdir(root);
  checkNode();
  checkRust();
  checkDisk();
  await installPackages(cargoBuild);
  return nodeForTypeScript();
}

/** Runs a TypeScript program of this package in the foreground and ends as it ends. */
export async function handOver(node, program, args) {
  const env = {
    ...process.env,
    PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}`,
  };
  const file = join(root, "packages/launcher/src", program);
  const code = await foreground(node, [file, ...args], { stdio: "inherit", env });
  if (askedToStop) await Promise.all([...children].map((child) => child.end));
  // A program that a signal ended before it could handle signals had nothing to stop.
  process.exit(code ?? (askedToStop ? 0 : 1));
}

/** Runs a program to its end. Returns its exit code, or null where a signal ended it. */
async function foreground(command, args, options) {
  await leaveIfAsked();
  return ended(spawn(command, args, options));
}

/** Resolves when the child, which gets this process's signals until then, has ended, and then `last`. */
function ended(child, pass = (signal) => child.kill(signal), last = async () => {}) {
  const entry = { pass };
  children.add(entry);
  entry.end = new Promise((resolve) => {
    const end = async (code) => {
      await last();
      children.delete(entry);
      resolve(code);
    };
    child.once("error", () => end(127));
    child.once("exit", end);
  });
  return entry.end;
}

/** Ends with success, once nothing runs any more, if a signal has asked for it. The pause lets a pending signal in. */
async function leaveIfAsked() {
  await new Promise((resolve) => setImmediate(resolve));
  if (!askedToStop) return;
  await Promise.all([...children].map((child) => child.end));
  process.exit(0);
}

function checkNode() {
  if (compare(process.versions.node, [20, 0]) < 0) {
    stop(
      `Node ${process.versions.node} is too old`,
      "install Node 20 or newer: https://nodejs.org/",
    );
  }
}

function checkRust() {
  const seen = version("cargo", ["--version"]);
  if (!seen) {
    stop(
      "no Rust toolchain (cargo) on PATH",
      "install it from https://rustup.rs/ and open a new shell",
    );
  }
  if (compare(seen, RUST_MIN) < 0) {
    stop(`Rust ${seen} is too old, ${RUST_MIN.join(".")} is needed`, "run: rustup update stable");
  }
  if (!version("cc", ["--version"])) {
    stop(
      "no C compiler (cc) on PATH",
      "Debian/Ubuntu: apt-get install build-essential; macOS: xcode-select --install",
    );
  }
}

function checkDisk() {
  const { bavail, bsize } = statfsSync(root);
  const free = (bavail * bsize) / 2 ** 30;
  if (free < FREE_GIB_MIN) {
    stop(
      `only ${free.toFixed(1)} GiB are free on the disk of ${root}`,
      `free ${FREE_GIB_MIN} GiB and try again`,
    );
  }
}

async function installPackages(cargoBuild) {
  const wanted = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  const mark = join(root, "node_modules/.millrace-lock");
  if (existsSync(mark) && readFileSync(mark, "utf8") === wanted) return;
  startDataPlaneBuild(cargoBuild);
  say("installing npm packages (a minute or two the first time) …");
  const code = await foreground("npm", ["ci", "--no-fund", "--no-audit"], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, npm_config_loglevel: "error" },
  });
  await leaveIfAsked();
  if (code !== 0)
    stop("npm ci failed (see above)", "check the network and the disk, then try again");
  await runAllowedScripts();
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(mark, wanted);
}

/**
 * Packages run no code while npm installs them (.npmrc), but for those that package.json allows: PostgreSQL's
 * archives have no symbolic links, which a script makes.
 */
async function runAllowedScripts() {
  const { allowScripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const names = Object.keys(allowScripts).filter(
    (name) => allowScripts[name] && existsSync(join(root, "node_modules", name)),
  );
  if (names.length === 0) return;
  const code = await foreground("npm", ["rebuild", "--ignore-scripts=false", ...names], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, npm_config_loglevel: "error" },
  });
  await leaveIfAsked();
  if (code !== 0) stop("npm rebuild failed (see above)", "remove node_modules and try again");
}

/**
 * Compiles the data plane while npm mostly unpacks. Nobody waits for it here: the build that follows takes
 * over where this one is, and reports what fails.
 */
function startDataPlaneBuild(args) {
  if (process.env.MILLRACE_SKIP_BUILD === "1") return;
  // A process group, because the compilers that cargo runs do not end with it.
  const options = { cwd: join(root, "dataplane"), stdio: "ignore", detached: true };
  const build = spawn("cargo", args, options);
  build.unref();
  if (build.pid === undefined) {
    build.on("error", () => {});
    return;
  }
  const pass = () => {
    // From here on somebody waits for it.
    build.ref();
    signalGroup(build.pid, "SIGTERM");
  };
  void ended(build, pass, () => groupEnded(build.pid));
}

/** After a signal: compilers end a moment after cargo, which does not wait for them. */
async function groupEnded(pid) {
  if (!askedToStop) return;
  const until = Date.now() + GROUP_END_MS_MAX;
  while (signalGroup(pid, 0) && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  signalGroup(pid, "SIGKILL");
}

/** Sends the signal; false where the group has no process. Signal 0 only asks. */
function signalGroup(pid, signal) {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}

function nodeForTypeScript() {
  const own = join(root, "node_modules/.bin/node");
  if (existsSync(own)) return own;
  if (compare(process.versions.node, TYPE_STRIPPING) >= 0) return process.execPath;
  return stop(
    `Node ${process.versions.node} cannot run TypeScript, and npm has no newer one for ${process.platform}-${process.arch}`,
    `install Node ${TYPE_STRIPPING.join(".")} or newer: https://nodejs.org/`,
  );
}

function version(command, args) {
  try {
    const text = execFileSync(command, args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return /\d+\.\d+(\.\d+)?/.exec(text)?.[0] ?? "0.0";
  } catch {
    return null;
  }
}

function compare(seen, wanted) {
  const [major, minor] = seen.split(".").map(Number);
  return major - wanted[0] || minor - wanted[1];
}
