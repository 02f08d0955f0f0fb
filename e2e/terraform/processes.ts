/** The processes of the product under test, and no others: those whose environment names its home. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { credentials, home } from "../product.ts";

const BACK_SECONDS_MAX = 30;

/** @throws Error where it does not run. */
export function pidOf(program: "api" | "worker"): number {
  const main = `apps/${program}/src/main.ts`;
  const found = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .find((pid) => {
      const args = read(`/proc/${pid}/cmdline`).split("\0");
      const variables = read(`/proc/${pid}/environ`).split("\0");
      return args.some((arg) => arg.endsWith(main)) && variables.includes(`MILLRACE_HOME=${home}`);
    });
  if (found === undefined) throw new Error(`no ${program} of ${home} runs`);
  return Number(found);
}

/** Kills the API as a crash would, and waits until another one answers. */
export async function crashApi(): Promise<void> {
  const pid = pidOf("api");
  process.kill(pid, "SIGKILL");
  for (let waited = 0; waited < BACK_SECONDS_MAX * 10; waited++) {
    const answer = await fetch(new URL("/healthz", credentials.apiUrl)).catch(() => undefined);
    if (answer?.ok && pidOf("api") !== pid) return;
    await sleep(100);
  }
  throw new Error(`the API is not back after ${BACK_SECONDS_MAX} s`);
}

/**
 * Runs `work` while the worker stands still, so that no operation moves on. A child lets it go on: it
 * does so, too, where this process dies and its pipe with it.
 */
export async function whileWorkerStands<T>(work: () => Promise<T>): Promise<T> {
  const pid = pidOf("worker");
  const watchdog = spawn("sh", ["-c", 'read -r _; kill -CONT "$0"', String(pid)], {
    stdio: ["pipe", "inherit", "inherit"],
    // A group of its own: a Ctrl-C of the test run does not end it.
    detached: true,
  });
  const goesOn = once(watchdog, "close");
  try {
    process.kill(pid, "SIGSTOP");
    return await work();
  } finally {
    watchdog.stdin.end();
    await goesOn;
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It ended meanwhile, or belongs to the system.
    return "";
  }
}
