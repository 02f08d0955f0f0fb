/** A program that the supervisor keeps running: started, watched, started again, stopped. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { BoundedLog } from "./bounded-log.ts";

/** What to run and how to know that it answers. */
export interface ServiceSpec {
  name: string;
  command: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Takes stdout and stderr. */
  log: string;
  /** Answers 2xx when the service is up; services without one are up when they run. */
  health?: string;
  /** How long a stop may take before the process is killed. */
  stopSecondsMax: number;
}

const START_SECONDS_MAX = 60;
const RESTART_MS = { first: 500, max: 15_000 };
/** A run this long counts as healthy: the next restart waits the short time again. */
const STEADY_MS = 60_000;

/** One supervised program. */
export class Service {
  readonly spec: ServiceSpec;
  #child: ChildProcess | undefined;
  #stopping = false;
  #restartMs = RESTART_MS.first;
  readonly #onCrash: (text: string) => void;

  constructor(spec: ServiceSpec, onCrash: (text: string) => void) {
    this.spec = spec;
    this.#onCrash = onCrash;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts the program and waits until it answers.
   *
   * @throws Error with the log's last lines where it ends or stays silent.
   */
  async start(): Promise<void> {
    this.#spawn();
    for (let waited = 0; waited < START_SECONDS_MAX * 10; waited++) {
      if (this.#stopping) return;
      if (this.#child === undefined) {
        throw new Error(`${this.spec.name} stopped at once:\n${this.logTail()}`);
      }
      if (await this.answers()) return;
      await sleep(100);
    }
    throw new Error(`${this.spec.name} does not answer:\n${this.logTail()}`);
  }

  /** True when the health address answers 2xx. */
  async answers(): Promise<boolean> {
    if (this.spec.health === undefined) return this.#child !== undefined;
    try {
      const reply = await fetch(this.spec.health, { signal: AbortSignal.timeout(2_000) });
      await reply.body?.cancel();
      return reply.ok;
    } catch {
      return false;
    }
  }

  /** Asks the program to end; kills it when its time is over. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), this.spec.stopSecondsMax * 1_000);
    await exited;
    clearTimeout(timer);
  }

  logTail(lines = 8): string {
    if (!existsSync(this.spec.log)) return "(no log)";
    return readFileSync(this.spec.log, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
  }

  #spawn(): void {
    const { command, args, env, cwd, log } = this.spec;
    const sink = new BoundedLog(log);
    const startedAt = Date.now();
    // A session of its own: Ctrl-C in the terminal reaches the supervisor alone, which then stops
    // the services in the right order.
    const child = spawn(command, args, {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    this.#child = child;
    child.stdout.pipe(sink, { end: false });
    child.stderr.pipe(sink, { end: false });
    child.once("error", (error) => sink.write(`${error.message}\n`));
    child.once("close", (code, signal) => {
      sink.end();
      this.#child = undefined;
      if (!this.#stopping) void this.#restart(code ?? signal, Date.now() - startedAt);
    });
  }

  async #restart(how: number | string | null, ranMs: number): Promise<void> {
    if (ranMs > STEADY_MS) this.#restartMs = RESTART_MS.first;
    const waitMs = this.#restartMs;
    this.#restartMs = Math.min(waitMs * 2, RESTART_MS.max);
    this.#onCrash(
      `${this.spec.name} ended unexpectedly (${how}); starting it again in ${waitMs} ms; log: ${this.spec.log}`,
    );
    await sleep(waitMs);
    if (!this.#stopping && this.#child === undefined) this.#spawn();
  }
}
