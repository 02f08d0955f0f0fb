/** Programs that run in a JVM of their own beside a test or a drill. */
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const LOG_MAX = 8_000;
const END_SECONDS_MAX = 180;
const MACHINE = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/** Classes of source files, which `java` would compile at each start; each in a folder named by its content. */
const CLASSES = join(import.meta.dirname, "../../../node_modules/.cache/millrace-java");

export interface JavaOptions {
  jars: string;
  /** A class of the jars, or a source file. */
  program: string;
  args?: string[];
  env?: Record<string, string>;
}

export class JavaProgram {
  readonly lines: string[] = [];
  readonly #name: string;
  readonly #child: ChildProcessWithoutNullStreams;
  #log = "";

  constructor(name: string, { jars, program, args = [], env = {} }: JavaOptions) {
    this.#name = name;
    const isSource = program.endsWith(".java");
    const classPath = isSource ? `${jars}/*:${classesOf(program, jars)}` : `${jars}/*`;
    const mainClass = isSource ? basename(program, ".java") : program;
    this.#child = spawn("java", [...MACHINE, "-cp", classPath, mainClass, ...args], {
      env: { ...process.env, ...env },
    });
    createInterface({ input: this.#child.stdout }).on("line", (line) => this.lines.push(line));
    this.#child.stderr.on("data", (chunk) => {
      this.#log = (this.#log + chunk).slice(-LOG_MAX);
    });
  }

  /** @throws Error where it ends before, or does not say the line in time. */
  async untilSaid(line: string, secondsMax: number): Promise<void> {
    await this.until(async () => this.lines.includes(line), `say ${line}`, secondsMax);
  }

  /** @throws Error where it ends before, or it takes too long. */
  async until(isSo: () => Promise<boolean>, what: string, secondsMax: number): Promise<void> {
    const end = performance.now() + secondsMax * 1_000;
    while (performance.now() < end) {
      if (await isSo()) return;
      if (this.#isOver) break;
      await sleep(200);
    }
    throw new Error(`${this.#name} does not ${what}: ${this.lines.slice(-3)} ${this.#log}`);
  }

  /** Closes its input, which asks it to end. @throws Error where it fails. */
  async end(): Promise<void> {
    this.#child.stdin.end();
    await this.#over("SIGKILL");
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== 0) {
      throw new Error(`${this.#name} ended with ${exitCode ?? signalCode}: ${this.#log}`);
    }
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.#isOver) return;
    this.#child.kill(signal);
    await this.#over("SIGKILL");
  }

  get #isOver(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #over(last: NodeJS.Signals): Promise<void> {
    const timer = setTimeout(() => this.#child.kill(last), END_SECONDS_MAX * 1_000);
    if (!this.#isOver) await once(this.#child, "close");
    clearTimeout(timer);
  }
}

/** The folder with the classes of the source file, which is compiled if it is new. */
function classesOf(source: string, jars: string): string {
  const content = createHash("sha256").update(jars).update(readFileSync(source)).digest("hex");
  const folder = join(CLASSES, content.slice(0, 16));
  if (existsSync(folder)) return folder;
  const made = `${folder}.${process.pid}`;
  mkdirSync(made, { recursive: true });
  try {
    execFileSync("javac", ["-proc:none", "-d", made, "-cp", `${jars}/*`, source]);
    renameSync(made, folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
  return folder;
}
