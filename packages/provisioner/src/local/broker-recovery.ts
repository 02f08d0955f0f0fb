/**
 * Rebuilds the metadata of a broker that lost it, with `millrace recover`. The program takes the lock of the
 * data folder, so it never runs beside a broker. It replaces the metadata by two renames; if it is killed between
 * them, running it again completes the recovery.
 */
import { spawn } from "node:child_process";
import type { ChangePlan } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import { recoveryPlan } from "../recovery-plan.ts";
import type { BrokerFiles } from "./broker-files.ts";
import type { BrokerProgram } from "./broker-process.ts";

/** Exit codes of `millrace recover` that have a meaning of their own (sysexits.h). */
const EXIT_FOLDER_IN_USE = 75;
const EXIT_BAD_CONFIGURATION = 78;
/** A report names each partition with missing records, about 200 bytes each. */
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
/** Part of the program's error output that is shown. */
const DETAIL_CHARACTERS_MAX = 2_000;
/** The whole metadata is read from the bucket: minutes for the largest over a slow link. */
const TIMEOUT_MS = 10 * 60_000;

export class BrokerRecovery {
  readonly #files: BrokerFiles;
  readonly #program: BrokerProgram;

  constructor(files: BrokerFiles, program: BrokerProgram) {
    this.#files = files;
    this.#program = program;
  }

  /** Throws `not_prepared`, `broker_running`, `config`, `plan_failed`, `unconfigured`, `aborted`. */
  async plan(signal: AbortSignal | undefined): Promise<ChangePlan> {
    return recoveryPlan(await this.#run("--dry-run", signal));
  }

  /**
   * Applies the plan; repeating it while its metadata is there does nothing. Throws `plan_stale` where a
   * recovery would now bring back something else than the plan says, and as `plan` does.
   */
  async apply(planId: string, signal: AbortSignal | undefined): Promise<void> {
    if ((await this.#files.readRecovered()) === planId && (await this.#files.hasMetadata())) return;
    const { id } = await this.plan(signal);
    if (id !== planId) {
      throw new ProvisionError("plan_stale", "what can be recovered has changed since the plan");
    }
    await this.#run("--yes", signal);
    await this.#files.writeRecovered(planId);
  }

  async #run(mode: "--dry-run" | "--yes", signal: AbortSignal | undefined): Promise<string> {
    if (!(await this.#files.isStartable())) {
      throw new ProvisionError("not_prepared", "the cluster has no configuration here");
    }
    const [file, ...before] = this.#program.command;
    const arguments_ = ["recover", "--config", this.#files.propertiesFile, mode, "--json"];
    const ended = await runProgram(file, [...before, ...arguments_], {
      cwd: this.#files.folder,
      env: this.#program.environment as NodeJS.ProcessEnv,
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]),
    });
    if (ended.code === 0) return ended.output;
    if (signal?.aborted) throw new ProvisionError("aborted", "the recovery was interrupted");
    throw failure(mode, ended);
  }
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

function failure(mode: "--dry-run" | "--yes", { code, errors }: Ended): ProvisionError {
  const detail = errors.slice(-DETAIL_CHARACTERS_MAX).trim();
  if (code === EXIT_FOLDER_IN_USE) {
    const message = "a broker runs on this data: only a broker that is stopped can be recovered";
    return new ProvisionError("broker_running", message, { detail });
  }
  if (code === EXIT_BAD_CONFIGURATION) {
    return new ProvisionError("config", "the broker's configuration is refused", { detail });
  }
  if (mode === "--yes")
    return new ProvisionError("apply_failed", "the recovery failed", { detail });
  return new ProvisionError("plan_failed", "the recovery cannot be planned", { detail });
}

async function runProgram(
  file: string,
  args: readonly string[],
  options: { cwd: string; env: NodeJS.ProcessEnv; signal: AbortSignal },
): Promise<Ended> {
  const child = spawn(file, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
    if (output.length > OUTPUT_BYTES_MAX) child.kill("SIGTERM");
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    errors = `${errors}${chunk}`.slice(-2 * DETAIL_CHARACTERS_MAX);
  });
  return await new Promise((resolve, reject) => {
    child.on("close", (code) => resolve({ code, output, errors }));
    child.on("error", (cause) => {
      // The process's end reports the abort.
      if (options.signal.aborted) return;
      const message = `cannot run the broker program ${file}`;
      reject(new ProvisionError("unconfigured", message, { cause, detail: String(cause) }));
    });
  });
}
