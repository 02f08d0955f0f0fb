/**
 * `npm start` gets a signal before it serves. The children are real and ignore nothing; whoever signals knows only the
 * process in the foreground. The stop of a product that serves is checked at the end of `npm test`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freePort } from "./postgres.ts";
import { root } from "./settings.ts";
import { processesOf } from "./stack.ts";

/** A stop ends the step under way first, which takes a busy machine a while. */
const SECONDS_MAX = 100;
/** What `npm start` runs once the packages are there. */
const HAND_OVER = `import { handOver } from ${JSON.stringify(join(root, "packages/launcher/bin/prepare.mjs"))};
await handOver(process.execPath, "start.ts", []);`;

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "millrace-signals-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

async function printed(child: ChildProcess, text: string): Promise<void> {
  let output = "";
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        output += chunk.toString();
        if (output.includes(text)) resolve();
      });
    }
    child.once("exit", (code, signal) =>
      reject(new Error(`ended (${code ?? signal}):\n${output}`)),
    );
  });
}

async function ended(child: ChildProcess): Promise<number | NodeJS.Signals> {
  if (child.exitCode !== null) return child.exitCode;
  const [code, signal] = await once(child, "exit", {
    signal: AbortSignal.timeout(SECONDS_MAX * 1_000),
  });
  return code ?? signal;
}

async function startIn(folder: string, env: NodeJS.ProcessEnv = {}): Promise<ChildProcess> {
  return spawn(process.execPath, ["--input-type=module", "-e", HAND_OVER], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      MILLRACE_HOME: folder,
      MILLRACE_SKIP_BUILD: "1",
      MILLRACE_API_PORT: String(await freePort()),
      MILLRACE_CONSOLE_PORT: String(await freePort()),
      ...env,
    },
  });
}

test.each([
  ["SIGTERM", "starting PostgreSQL"],
  ["SIGINT", "applying migrations"],
  ["SIGTERM", "creating the first owner"],
] as const)(
  "%s during “%s” stops everything and succeeds",
  async (signal, step) => {
    const child = await startIn(home);
    await printed(child, step);
    expect(processesOf(home).length).toBeGreaterThan(1);
    child.kill(signal);
    child.kill(signal);
    expect(await ended(child)).toBe(0);
    expect(processesOf(home)).toEqual([]);
    expect(existsSync(join(home, "supervisor.json"))).toBe(false);
  },
  120_000,
);

/** A clone whose `npm` and `cargo` never end by themselves; `cargo` leaves a compiler behind when it dies. */
function slowClone(): NodeJS.ProcessEnv {
  const bin = join(home, "bin");
  cpSync(join(root, "packages/launcher/bin"), join(home, "packages/launcher/bin"), {
    recursive: true,
  });
  mkdirSync(join(home, "dataplane"));
  mkdirSync(bin);
  writeFileSync(join(home, "package-lock.json"), "{}");
  const program = (name: string, text: string) => {
    writeFileSync(
      join(bin, name),
      `#!/bin/sh\n[ "$1" = --version ] && echo 1.99.0 && exit\n${text}\n`,
    );
    chmodSync(join(bin, name), 0o755);
  };
  program("cc", "");
  program("cargo", `sleep 600 & touch ${home}/compiling; wait`);
  program("npm", `touch ${home}/installing; exec sleep 600`);
  return { ...process.env, CLONE: home, PATH: `${bin}${delimiter}${process.env.PATH}` };
}

test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
  "%s while packages are installed ends npm and the compiler, and succeeds",
  async (signal) => {
    const env = { ...slowClone(), MILLRACE_SKIP_BUILD: "" };
    const script = join(home, "packages/launcher/bin/start.mjs");
    const child = spawn(process.execPath, [script], { stdio: "ignore", env });
    while (!existsSync(join(home, "installing")) || !existsSync(join(home, "compiling"))) {
      expect(child.exitCode).toBeNull();
      await sleep(20);
    }
    child.kill(signal);
    expect(await ended(child)).toBe(0);
    expect(processesOf(home)).toEqual([]);
  },
);

test("a port in use is a failure, and leaves no process", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const child = await startIn(home, { MILLRACE_API_PORT: String(port) });
  await printed(child, "which the API needs, is in use");
  expect(await ended(child)).toBe(1);
  expect(processesOf(home)).toEqual([]);
  taken.close();
});
