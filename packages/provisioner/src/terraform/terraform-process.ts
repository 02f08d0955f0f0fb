/**
 * Terraform runs in a folder: at most one at a time, found again after its worker died, and interrupted
 * gracefully.
 *
 * The child has its own session and writes to files, not pipes. So if the worker is killed, Terraform continues
 * and writes its state. `terraform.pid` identifies the process, with its start time and the worker that started
 * it. The next worker first interrupts such a survivor: Terraform then finishes its current calls and records
 * everything that it created. It is interrupted only once, because a second interrupt makes it exit without
 * recording.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunFence } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import { JsonLines } from "../json-lines.ts";
import { isSameProcess, type ProcessIdentity, type ProcessTable } from "../local/process-table.ts";

/** An interrupted Terraform waits for its current calls, the longest of which takes minutes. */
export const INTERRUPT_GRACE_MS = 10 * 60_000;
/** After SIGKILL only the kernel's own work is left. */
const KILL_TIMEOUT_MS = 10_000;
const POLL_MS = 100;
const READ_BYTES = 64 * 1024;
/** A plan's JSON is some MiB at most; beyond this something is wrong. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

export interface TerraformCommand {
  readonly bin: string;
  /** Without `-chdir`. */
  readonly arguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly fence: RunFence | undefined;
  readonly signal: AbortSignal | undefined;
  /** Each line of a `-json` command. Absent for a command whose whole output is the answer. */
  readonly onLine?: (line: Record<string, unknown> | string) => void;
  /** Called every `POLL_MS` while the command runs, one call at a time. Throws to interrupt it. */
  readonly onTick?: () => Promise<void>;
}

export interface TerraformResult {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly interrupted: boolean;
  /** Output of a command without `onLine`. */
  readonly output: string;
  /** The end of its standard error. */
  readonly errors: string;
}

/** Content of `terraform.pid`. */
interface RunRecord {
  readonly process: ProcessIdentity;
  readonly worker: ProcessIdentity | undefined;
  readonly fence: RunFence | undefined;
  readonly interrupted: boolean;
}

export interface TerraformProcessOptions {
  /** Absolute; its path on the command line is how a run without a pid file is found. */
  readonly folder: string;
  readonly table: ProcessTable;
  readonly graceMs?: number;
}

export class TerraformProcess {
  readonly #folder: string;
  readonly #table: ProcessTable;
  readonly #graceMs: number;

  constructor(options: TerraformProcessOptions) {
    this.#folder = options.folder;
    this.#table = options.table;
    this.#graceMs = options.graceMs ?? INTERRUPT_GRACE_MS;
  }

  /** The current run in this folder, whichever worker started it. */
  find(): ProcessIdentity | undefined {
    const recorded = this.#readRecord()?.process;
    if (recorded && isSameProcess(recorded, this.#table.find(recorded.pid))) return recorded;
    return this.#table.findByArgument(this.#chdir())[0];
  }

  /**
   * Ends a run that an earlier worker left. Throws `ProvisionError` `busy` if that worker is alive and has not
   * lost its lease.
   */
  async settle(fence: RunFence | undefined, signal?: AbortSignal): Promise<boolean> {
    const record = this.#readRecord();
    const survivor = this.find();
    if (survivor !== undefined) {
      if (this.#belongsToAnother(record, survivor, fence)) {
        throw new ProvisionError("busy", "another worker's Terraform works on this cluster");
      }
      await this.#end(survivor, record?.interrupted === true, signal);
    }
    if (record) await this.#endPlugins(record.process.pid);
    rmSync(this.#pidFile(), { force: true });
    return survivor !== undefined;
  }

  /** Runs a command to its end. Throws what `onTick` threw, once the command has ended. */
  async run(command: TerraformCommand): Promise<TerraformResult> {
    if (command.signal?.aborted) throw aborted();
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await rm(this.#outputFile(), { force: true });
    await rm(this.#errorFile(), { force: true });
    const { identity, ended } = this.#start(command);
    const run = new WatchedRun(command, this.#outputFile());
    let result: { code: number | null } | undefined;
    void ended.then((end) => {
      result = end;
    });
    let interruptedAt: number | undefined;
    while (result === undefined) {
      await Promise.race([ended, sleep(POLL_MS)]);
      // Not awaited: a database that hangs in it must not delay an interrupt.
      run.tick();
      if (interruptedAt === undefined && (command.signal?.aborted || run.failure !== undefined)) {
        interruptedAt = performance.now();
        this.#interrupt(identity, command.fence);
      }
      if (interruptedAt !== undefined && performance.now() - interruptedAt >= this.#graceMs) {
        this.#signal(identity, "SIGKILL");
      }
    }
    await run.end();
    await this.#endPlugins(identity.pid);
    rmSync(this.#pidFile(), { force: true });
    if (run.failure !== undefined) throw run.failure;
    const errors = (await tailOf(this.#errorFile())).trim();
    const output = command.onLine ? "" : await wholeOf(this.#outputFile());
    return { code: result.code, interrupted: interruptedAt !== undefined, output, errors };
  }

  #start(command: TerraformCommand) {
    const output = openSync(this.#outputFile(), "wx", 0o600);
    const errors = openSync(this.#errorFile(), "wx", 0o600);
    try {
      const child = spawn(command.bin, [this.#chdir(), ...command.arguments], {
        cwd: this.#folder,
        detached: true,
        env: command.environment as NodeJS.ProcessEnv,
        stdio: ["ignore", output, errors],
      });
      // Synchronous, at once: the shorter the gap, the rarer the search by command line.
      const identity = child.pid === undefined ? undefined : this.#table.find(child.pid);
      if (identity) this.#writeRecord(identity, command.fence, false);
      const ended = new Promise<{ code: number | null }>((resolve) => {
        child.once("error", () => resolve({ code: null }));
        child.once("exit", (code) => resolve({ code }));
      });
      if (child.pid === undefined) {
        throw new ProvisionError("unconfigured", `cannot run ${command.bin}: is it installed?`);
      }
      // A child that has ended already has no identity, and needs none.
      return { identity: identity ?? { pid: child.pid, startMark: "" }, ended };
    } finally {
      closeSync(output);
      closeSync(errors);
    }
  }

  async #end(
    survivor: ProcessIdentity,
    interruptedBefore: boolean,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (!interruptedBefore) this.#interrupt(survivor, this.#readRecord()?.fence);
    if (await this.#gone(survivor, this.#graceMs, signal)) return;
    this.#signal(survivor, "SIGKILL");
    if (await this.#gone(survivor, KILL_TIMEOUT_MS, signal)) return;
    throw new ProvisionError("stop_failed", `Terraform's process ${survivor.pid} does not end`);
  }

  /** Marks the run first, so that the next worker does not interrupt it a second time. */
  #interrupt(identity: ProcessIdentity, fence: RunFence | undefined): void {
    this.#writeRecord(identity, fence, true);
    this.#signal(identity, "SIGINT");
  }

  /** A killed Terraform leaves its provider behind, which may still be in the middle of a call. */
  async #endPlugins(groupId: number): Promise<void> {
    // A live process with that id is unrelated: the id was not free while members of the group lived.
    if (this.#table.find(groupId) !== undefined) return;
    for (const { identity, command } of this.#table.findByGroup(groupId)) {
      if (!command.includes("terraform-provider-")) continue;
      this.#signal(identity, "SIGKILL");
      await this.#gone(identity, KILL_TIMEOUT_MS, undefined);
    }
  }

  #belongsToAnother(
    record: RunRecord | undefined,
    survivor: ProcessIdentity,
    fence: RunFence | undefined,
  ): boolean {
    if (record === undefined || !isSameProcess(record.process, survivor)) return false;
    const { worker, fence: old } = record;
    if (worker === undefined || worker.pid === process.pid) return false;
    if (!isSameProcess(worker, this.#table.find(worker.pid))) return false;
    if (fence === undefined) return true;
    if (old === undefined) return false;
    // Within one operation the newer attempt wins. Another operation starts only after the journal says that the
    // old one is over.
    return old.operationId === fence.operationId && old.attempt >= fence.attempt;
  }

  async #gone(
    identity: ProcessIdentity,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const deadline = performance.now() + timeoutMs;
    while (this.#isAlive(identity)) {
      if (signal?.aborted) throw aborted();
      if (performance.now() >= deadline) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  #isAlive(identity: ProcessIdentity): boolean {
    return isSameProcess(identity, this.#table.find(identity.pid));
  }

  /** Only to the program: its plugins end with it, and must not end earlier. */
  #signal(identity: ProcessIdentity, signal: "SIGINT" | "SIGKILL"): void {
    if (!this.#isAlive(identity)) return;
    try {
      process.kill(identity.pid, signal);
    } catch (cause) {
      if (cause instanceof Error && "code" in cause && cause.code === "ESRCH") return;
      throw new ProvisionError("stop_failed", `cannot signal process ${identity.pid}`, { cause });
    }
  }

  #chdir(): string {
    return `-chdir=${this.#folder}`;
  }
  #pidFile(): string {
    return join(this.#folder, "terraform.pid");
  }
  #outputFile(): string {
    return join(this.#folder, "terraform.out");
  }
  #errorFile(): string {
    return join(this.#folder, "terraform.err");
  }

  #readRecord(): RunRecord | undefined {
    try {
      const record: unknown = JSON.parse(readFileSync(this.#pidFile(), "utf8"));
      return isRecord(record) ? record : undefined;
    } catch {
      // Missing, or truncated by a crash: the search by command line decides.
      return undefined;
    }
  }

  #writeRecord(identity: ProcessIdentity, fence: RunFence | undefined, interrupted: boolean): void {
    const worker = this.#table.find(process.pid);
    const record: RunRecord = { process: identity, worker, fence, interrupted };
    const next = `${this.#pidFile()}.${process.pid}.new`;
    writeFileSync(next, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    renameSync(next, this.#pidFile());
  }
}

/** Reads a run's output while it runs and calls its tick; keeps the first failure. */
class WatchedRun {
  readonly #command: TerraformCommand;
  readonly #path: string;
  readonly #lines = new JsonLines();
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES);
  #offset = 0;
  #looking: Promise<void> | undefined;
  failure: unknown;

  constructor(command: TerraformCommand, path: string) {
    this.#command = command;
    this.#path = path;
  }

  /** Starts a read, unless one is in progress. */
  tick(): void {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
  }

  /** The last read, after the program has ended. */
  async end(): Promise<void> {
    await this.#looking;
    await this.#look();
  }

  async #look(): Promise<void> {
    try {
      if (this.#command.onLine) await this.#read(this.#command.onLine);
      if (this.failure === undefined) await this.#command.onTick?.();
    } catch (error) {
      this.failure ??= error;
    }
  }

  async #read(onLine: NonNullable<TerraformCommand["onLine"]>): Promise<void> {
    const file = await open(this.#path, "r");
    try {
      for (;;) {
        const { bytesRead } = await file.read(this.#buffer, 0, READ_BYTES, this.#offset);
        if (bytesRead === 0) return;
        this.#offset += bytesRead;
        for (const line of this.#lines.push(this.#buffer.subarray(0, bytesRead))) onLine(line);
      }
    } finally {
      await file.close();
    }
  }
}

async function tailOf(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const length = Math.min(size, READ_BYTES);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString("utf8");
  } finally {
    await file.close();
  }
}

async function wholeOf(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size > OUTPUT_BYTES_MAX) {
      throw new ProvisionError("plan_failed", `Terraform printed ${size} bytes: too many to read`);
    }
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

function aborted(): ProvisionError {
  return new ProvisionError("aborted", "the run of Terraform was aborted");
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

function isRecord(value: unknown): value is RunRecord {
  return (
    typeof value === "object" && value !== null && "process" in value && isIdentity(value.process)
  );
}
