/**
 * The operating-system process of one cluster's broker: started at most once, found again, stopped.
 *
 * The broker has its own session and its own log, and outlives the worker that started it. `broker.pid`
 * identifies the process, with its start time. If a worker is killed between the start and the writing of that
 * file, the process is found by its command line, which has the path of the cluster's configuration. The broker's
 * lock on its data folder is the last safeguard: if two workers start a broker, only one keeps running.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ProvisionError, type WaitOptions } from "../cluster-driver.ts";
import type { BrokerFiles } from "./broker-files.ts";
import { logTail } from "./broker-log.ts";
import { isSameProcess, type ProcessIdentity, type ProcessTable } from "./process-table.ts";

export interface BrokerProgram {
  /** The program, and arguments before `broker --config …`. */
  readonly command: readonly [string, ...string[]];
  /** Its whole environment. The worker's own has secrets and is not inherited. */
  readonly environment: Readonly<Record<string, string>>;
}

/** A broker drains its connections and uploads within this time, or is killed; nothing is lost. */
const STOP_TIMEOUT_MS = 30_000;
/** After SIGKILL only the kernel's own work is left. */
const KILL_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

export class BrokerProcess {
  readonly #files: BrokerFiles;
  readonly #table: ProcessTable;

  constructor(files: BrokerFiles, table: ProcessTable) {
    this.#files = files;
    this.#table = table;
  }

  /** The broker's live process, however it was started. */
  find(): ProcessIdentity | undefined {
    const recorded = this.#readPidFile();
    if (recorded && isSameProcess(recorded, this.#table.find(recorded.pid))) return recorded;
    const [found] = this.#table.findByArguments(this.#arguments());
    // Without its folder it cannot be recorded; the caller may still stop it.
    if (found && existsSync(this.#files.folder)) this.#writePidFile(found);
    return found;
  }

  /** Starts the program. The caller has checked, under its lock, that none runs. */
  async start(program: BrokerProgram): Promise<ProcessIdentity> {
    const [file, ...before] = program.command;
    const log = openSync(this.#files.logFile, "a", 0o600);
    try {
      const child = spawn(file, [...before, ...this.#arguments()], {
        cwd: this.#files.folder,
        detached: true,
        env: program.environment as NodeJS.ProcessEnv,
        stdio: ["ignore", log, log],
      });
      // Synchronous, at once: the shorter the gap, the rarer the search by command line.
      const identity = child.pid === undefined ? undefined : this.#table.find(child.pid);
      if (identity) this.#writePidFile(identity);
      await once(child, "spawn");
      child.unref();
      if (identity) return identity;
    } catch (cause) {
      throw new ProvisionError("start_failed", `cannot start the broker program ${file}`, {
        cause,
        detail: cause instanceof Error ? cause.message : String(cause),
      });
    } finally {
      closeSync(log);
    }
    throw new ProvisionError("start_failed", "the broker ended at once", {
      detail: await logTail(this.#files.logFile),
    });
  }

  /** SIGTERM, a bounded wait for the drain, SIGKILL. Every process of this broker is gone then. */
  async stop(options: WaitOptions = {}): Promise<void> {
    for (let target = this.find(); target !== undefined; target = this.find()) {
      this.#signal(target, "SIGTERM");
      if (await this.#gone(target, options.timeoutMs ?? STOP_TIMEOUT_MS, options.signal)) continue;
      this.#signal(target, "SIGKILL");
      if (await this.#gone(target, KILL_TIMEOUT_MS, options.signal)) continue;
      throw new ProvisionError("stop_failed", `the broker's process ${target.pid} does not end`);
    }
    rmSync(this.#files.pidFile, { force: true });
  }

  isAlive(identity: ProcessIdentity): boolean {
    return isSameProcess(identity, this.#table.find(identity.pid));
  }

  async #gone(
    identity: ProcessIdentity,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const deadline = performance.now() + timeoutMs;
    while (this.isAlive(identity)) {
      if (signal?.aborted) throw new ProvisionError("aborted", "stopping the broker was aborted");
      if (performance.now() >= deadline) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  #signal(identity: ProcessIdentity, signal: "SIGTERM" | "SIGKILL"): void {
    if (!this.isAlive(identity)) return;
    try {
      process.kill(identity.pid, signal);
    } catch (cause) {
      if (cause instanceof Error && "code" in cause && cause.code === "ESRCH") return;
      throw new ProvisionError("stop_failed", `cannot signal process ${identity.pid}`, { cause });
    }
  }

  /** Unique to this cluster: its configuration's absolute path. */
  #arguments(): string[] {
    return ["broker", "--config", this.#files.propertiesFile];
  }

  #readPidFile(): ProcessIdentity | undefined {
    try {
      const content: unknown = JSON.parse(readFileSync(this.#files.pidFile, "utf8"));
      return isIdentity(content) ? content : undefined;
    } catch {
      // Missing, or truncated by a crash: the search by command line decides.
      return undefined;
    }
  }

  #writePidFile(identity: ProcessIdentity): void {
    const next = `${this.#files.pidFile}.${process.pid}.new`;
    writeFileSync(next, `${JSON.stringify(identity)}\n`, { mode: 0o600 });
    renameSync(next, this.#files.pidFile);
  }
}

function isIdentity(value: unknown): value is ProcessIdentity {
  return (
    typeof value === "object" &&
    value !== null &&
    "pid" in value &&
    Number.isSafeInteger(value.pid) &&
    Number(value.pid) > 1 &&
    "startMark" in value &&
    typeof value.startMark === "string"
  );
}
