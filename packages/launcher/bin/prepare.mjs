/**
 * What both commands need before any package is there: plain JavaScript, Node 20, no import but
 * Node's own. It checks the machine, installs the npm packages when the lockfile changed, and then
 * hands over to a TypeScript program under a Node that runs TypeScript.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
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

/** Ends the command with one line that says what is wrong and what to do. */
export function stop(problem, remedy) {
  console.error(`\nmillrace: ${problem}\n  → ${remedy}`);
  process.exit(1);
}

export function say(text) {
  console.log(`\u001b[2m[${new Date().toISOString().slice(11, 19)}]\u001b[0m ${text}`);
}

/** Checks the machine and installs the packages; returns the Node to go on with. */
export function prepare() {
  process.chdir(root);
  checkNode();
  checkRust();
  checkDisk();
  installPackages();
  return nodeForTypeScript();
}

/** Runs a TypeScript program of this package in the foreground and ends as it ends. */
export function handOver(node, program, args) {
  const env = {
    ...process.env,
    PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}`,
  };
  const child = spawn(node, [join(root, "packages/launcher/src", program), ...args], {
    stdio: "inherit",
    env,
  });
  // Ctrl-C reaches the child by itself; here it must not end the parent before the child is done.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      if (signal !== "SIGINT") child.kill(signal);
    });
  }
  child.on("exit", (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
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

function installPackages() {
  const wanted = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  const mark = join(root, "node_modules/.millrace-lock");
  if (existsSync(mark) && readFileSync(mark, "utf8") === wanted) return;
  startBrokerBuild();
  say("installing npm packages (a minute or two the first time) …");
  const run = spawnSync("npm", ["ci", "--no-fund", "--no-audit"], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, npm_config_loglevel: "error" },
  });
  if (run.status !== 0)
    stop("npm ci failed (see above)", "check the network and the disk, then try again");
  runAllowedScripts();
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(mark, wanted);
}

/**
 * Packages run no code while npm installs them (.npmrc), but for those that package.json allows: PostgreSQL's
 * archives have no symbolic links, which a script makes.
 */
function runAllowedScripts() {
  const { allowScripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const names = Object.keys(allowScripts).filter(
    (name) => allowScripts[name] && existsSync(join(root, "node_modules", name)),
  );
  if (names.length === 0) return;
  const run = spawnSync("npm", ["rebuild", "--ignore-scripts=false", ...names], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, npm_config_loglevel: "error" },
  });
  if (run.status !== 0) stop("npm rebuild failed (see above)", "remove node_modules and try again");
}

/**
 * Compiles the broker while npm mostly unpacks. Nobody waits for it here: the build that follows takes
 * over where this one is, and reports what fails.
 */
function startBrokerBuild() {
  if (process.env.MILLRACE_SKIP_BUILD === "1") return;
  const args = ["build", "--release", "--locked", "-p", "millrace"];
  const build = spawn("cargo", args, { cwd: join(root, "dataplane"), stdio: "ignore" });
  build.on("error", () => {});
  build.unref();
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
