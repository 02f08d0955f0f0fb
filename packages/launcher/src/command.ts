/** Runs one command to its end, quietly: what it prints is shown as a line now and then. */
import { spawn } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { print } from "./terminal.ts";

/** How a command ended and all that it printed. */
export interface Ended {
  code: number;
  output: string;
}

/** How a command is run. */
export interface CommandOptions {
  cwd: string;
  env?: NodeJS.ProcessEnv;
  /** What the progress lines call it. */
  title: string;
  /** Takes the command's own lines as they come, without control characters. */
  onLine?: (line: string) => void;
  secondsMax: number;
  /** Ends the command, and what it started in its process group, when it aborts. */
  signal?: AbortSignal;
}

/** A log that nobody watches keeps what matters within its last lines. */
const PROGRESS_MS = process.stdout.isTTY === true ? 10_000 : 60_000;
/** As timeout(1) has it. */
const TIMED_OUT = 124;
/** Output kept in memory, in characters; the oldest goes first. */
const OUTPUT_CHARS_MAX = 8 * 1024 * 1024;

/** Runs the command; a line of progress appears now and then. */
export function run(command: string, args: string[], options: CommandOptions): Promise<Ended> {
  return new Promise((resolve) => {
    const startedAt = Date.now();
    let output = "";
    let last = "";
    let rest = "";
    let timedOut = false;
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: options.signal !== undefined,
    });
    const take = (chunk: Buffer) => {
      const text = stripVTControlCharacters(chunk.toString());
      output = (output + text).slice(-OUTPUT_CHARS_MAX);
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.trim() !== "") last = line.trim();
        options.onLine?.(line);
      }
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    const progress = setInterval(() => {
      const seconds = Math.round((Date.now() - startedAt) / 1_000);
      print(`  … ${options.title}, ${seconds} s: ${last.slice(0, 100)}`);
    }, PROGRESS_MS);
    const timer = setTimeout(() => {
      timedOut = true;
      output += `\n${options.title}: ended after ${options.secondsMax} s without a result\n`;
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), 10_000).unref();
    }, options.secondsMax * 1_000);
    const endGroup = () => {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
    };
    options.signal?.addEventListener("abort", endGroup, { once: true });
    // A command must not outlive the one who asked for it.
    const abandon = () => child.kill("SIGTERM");
    process.once("exit", abandon);
    const end = (code: number) => {
      process.off("exit", abandon);
      options.signal?.removeEventListener("abort", endGroup);
      clearInterval(progress);
      clearTimeout(timer);
      resolve({ code, output });
    };
    child.once("error", (error) => {
      output += `${error.message}\n`;
      end(127);
    });
    // Whoever is told to stop may well say that all is well.
    child.once("close", (code) => end(timedOut ? TIMED_OUT : (code ?? 1)));
  });
}
