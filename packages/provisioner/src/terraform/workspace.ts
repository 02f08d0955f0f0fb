/**
 * The working folder of one cluster's stack:
 *
 *     <root>/<cluster id>/              0700
 *       cdk.tf.json                     what Terraform reads
 *       terraform.tfstate, .backup      what exists (see state-copy.ts)
 *       terraform.tfstate.saved         which of the database's copies that descends from
 *       asked.json, applied.json        the deployment last requested, and last applied
 *       plans/<plan id>.tfplan, .json   the stored plan and its purpose
 *       terraform.pid, .out, .err       the current run (see terraform-process.ts)
 *       .terraform/, .terraform.lock.hcl
 */
import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { METADATA_PASSWORD_VARIABLE } from "@millrace/infra";
import type { RunFence, RunOptions } from "../change-plan.ts";
import { ProvisionError, type ProvisionErrorCode } from "../cluster-driver.ts";
import type { ProcessTable } from "../local/process-table.ts";
import { type Diagnostic, diagnosticOf, runFailure } from "./diagnostics.ts";
import { RunEvents } from "./run-events.ts";
import type { RestoredState, StateCopy, StateDocument } from "./state-copy.ts";
import { TerraformProcess, type TerraformResult } from "./terraform-process.ts";
import {
  environmentOf,
  readIfThere,
  replaceFile,
  type TerraformProgram,
} from "./terraform-program.ts";

/** How long to wait for another run on this machine that holds Terraform's lock. */
const LOCK_TIMEOUT = "30s";
const PASSWORD_BYTES = 24;
const NO_STATE: RestoredState = { state: undefined, restored: false };

export interface WorkspaceOptions {
  readonly folder: string;
  readonly program: TerraformProgram;
  readonly cliConfig: string;
  readonly table: ProcessTable;
  /** Absent for a temporary folder, such as an offline plan's. */
  readonly state?: StateCopy | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly graceMs?: number | undefined;
}

export interface TerraformPlanOptions {
  readonly planId: string;
  readonly destroy?: boolean;
  readonly refreshOnly?: boolean;
  /** Without asking AWS. */
  readonly offline?: boolean;
  /** The address of a resource: only it and what it depends on. */
  readonly target?: string;
}

export class Workspace {
  readonly folder: string;
  readonly #options: WorkspaceOptions;
  readonly #process: TerraformProcess;

  constructor(options: WorkspaceOptions) {
    this.folder = options.folder;
    this.#options = options;
    const { folder, table, graceMs } = options;
    this.#process = new TerraformProcess({ folder, table, ...(graceMs ? { graceMs } : {}) });
  }

  /**
   * Works in the folder: ends an earlier run, restores the newest state, and saves the resulting state
   * whatever happens.
   */
  async session<T>(options: RunOptions, work: (run: WorkspaceRun) => Promise<T>): Promise<T> {
    const { state: copy, now } = this.#options;
    await mkdir(join(this.folder, "plans"), { recursive: true, mode: 0o700 });
    const events = new RunEvents({
      onEvent: options.onEvent ?? (() => {}),
      now,
    });
    const ended = await this.#process.settle(options.fence, options.signal);
    if (ended) events.say("a run that an earlier worker left behind was ended in good order");
    const { state, restored, warning } = (await copy?.restore()) ?? NO_STATE;
    if (warning !== undefined) events.say(warning, "warning");
    if (restored) events.say("the state was restored from the control plane's copy", "warning");
    const run = new WorkspaceRun(this.#options, this.#process, options, events, state);
    try {
      return await work(run);
    } finally {
      if ((await copy?.settle(options.fence)) === false) {
        const message =
          "the state could not be saved to the control plane's database; the next run does so";
        events.say(message, "warning");
      }
    }
  }

  async readJson(name: string): Promise<unknown> {
    const text = await readIfThere(join(this.folder, name));
    if (text === undefined) return undefined;
    try {
      return JSON.parse(text.toString("utf8"));
    } catch {
      // Truncated by a power failure: counts as absent.
      return undefined;
    }
  }

  async writeJson(name: string, value: unknown): Promise<void> {
    await replaceFile(join(this.folder, name), `${JSON.stringify(value)}\n`);
  }

  /** Removes the stored plans except one. */
  async dropPlans(except: string): Promise<void> {
    await this.#drop((name) => !name.startsWith(`${except}.`));
  }

  /** Removes the plans of one purpose. */
  async dropPlansOf(purpose: string): Promise<void> {
    await this.#drop((name) => name.startsWith(`${purpose}-`));
  }

  async hasPlans(): Promise<boolean> {
    return (await readdir(join(this.folder, "plans")).catch(() => [])).length > 0;
  }

  async #drop(chosen: (name: string) => boolean): Promise<void> {
    const plans = join(this.folder, "plans");
    for (const name of await readdir(plans).catch(() => [])) {
      if (chosen(name)) await rm(join(plans, name), { force: true });
    }
  }

  async exists(): Promise<boolean> {
    return (await readdir(this.folder).catch(() => [])).length > 0;
  }

  /** Removes the folder with everything in it. The caller has made sure that the state is empty. */
  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** The commands of one session. */
export class WorkspaceRun {
  readonly events: RunEvents;
  readonly #options: WorkspaceOptions;
  readonly #process: TerraformProcess;
  readonly #session: RunOptions;
  #state: StateDocument | undefined;

  constructor(
    options: WorkspaceOptions,
    process: TerraformProcess,
    session: RunOptions,
    events: RunEvents,
    state: StateDocument | undefined,
  ) {
    this.#options = options;
    this.#process = process;
    this.#session = session;
    this.#state = state;
    this.events = events;
  }

  /** The state as it was when the session began, or after the last command that changes it. */
  get state(): StateDocument | undefined {
    return this.#state;
  }

  /** Writes the stack and installs the providers. */
  async prepare(stackFile: string, stackText: string): Promise<void> {
    await replaceFile(join(this.#options.folder, stackFile), stackText);
    const { code, errors } = await this.#plain(["init", "-input=false", "-no-color"]);
    if (code === 0) return;
    throw this.#failed("terraform init", "plan_failed", errors);
  }

  /** Throws `ProvisionError` `config` with the diagnostics if the stack is invalid. */
  async validate(): Promise<void> {
    const { code, output, errors } = await this.#plain(["validate", "-json"]);
    if (code === 0) return;
    const diagnostics = diagnosticsIn(output);
    // Without a complete answer nothing is known about the stack; a retry may help.
    if (diagnostics.length === 0) throw this.#failed("terraform validate", "plan_failed", errors);
    throw runFailure("terraform validate", diagnostics, "config");
  }

  /** Makes and stores a plan; returns its JSON. */
  async plan(options: TerraformPlanOptions): Promise<unknown> {
    const file = planFile(options.planId);
    await this.#run("terraform plan", "plan_failed", [
      "plan",
      "-json",
      "-input=false",
      `-out=${file}`,
      `-lock-timeout=${LOCK_TIMEOUT}`,
      ...(options.destroy ? ["-destroy"] : []),
      ...(options.refreshOnly ? ["-refresh-only"] : []),
      ...(options.offline ? ["-refresh=false"] : []),
      ...(options.target === undefined ? [] : [`-target=${options.target}`]),
    ]);
    const { code, output, errors } = await this.#plain(["show", "-json", file]);
    if (code !== 0) throw this.#failed("terraform show", "plan_failed", errors);
    try {
      return JSON.parse(output);
    } catch (cause) {
      throw new ProvisionError("plan_failed", "Terraform printed a plan that is no JSON", {
        cause,
      });
    }
  }

  /** Applies the stored plan. */
  async apply(planId: string): Promise<void> {
    const file = planFile(planId);
    if ((await readIfThere(join(this.#options.folder, file))) === undefined) {
      throw new ProvisionError("plan_stale", `plan ${planId} is not kept here any more`);
    }
    const parameters = ["apply", "-json", "-input=false", `-lock-timeout=${LOCK_TIMEOUT}`, file];
    await this.#run("terraform apply", "apply_failed", parameters);
  }

  /**
   * Imports an existing resource as `address`. Returns false if AWS says that it does not exist after all.
   */
  async import(address: string, id: string): Promise<boolean> {
    const lock = `-lock-timeout=${LOCK_TIMEOUT}`;
    const parameters = ["import", "-input=false", "-no-color", lock, address, id];
    const { code, errors } = await this.#plain(parameters);
    await this.#readState();
    if (code === 0) return true;
    if (/cannot import non-existent remote object/i.test(errors)) return false;
    throw this.#failed(`terraform import ${address}`, "apply_failed", errors);
  }

  /** Untaints the resource of an interrupted creation, so that the next plan changes it in place. */
  async untaint(address: string): Promise<void> {
    const lock = `-lock-timeout=${LOCK_TIMEOUT}`;
    const { code, errors } = await this.#plain(["untaint", "-no-color", lock, address]);
    await this.#readState();
    if (code !== 0) throw this.#failed(`terraform untaint ${address}`, "plan_failed", errors);
  }

  async #run(what: string, otherwise: ProvisionErrorCode, parameters: readonly string[]) {
    const { state } = this.#options;
    const before = this.events.diagnostics.length;
    const result = await this.#process.run({
      ...this.#command(parameters),
      onLine: (line) => this.events.take(line),
      onTick: async () => await state?.follow(this.#session.fence),
    });
    await this.#readState();
    this.#throwIfInterrupted(what, result);
    if (result.code === 0) return;
    const diagnostics = this.events.diagnostics.slice(before);
    const told = diagnostics.some((each) => each.severity === "error");
    if (told) throw runFailure(what, diagnostics, otherwise);
    throw this.#failed(what, otherwise, result.errors);
  }

  async #plain(parameters: readonly string[]): Promise<TerraformResult> {
    const result = await this.#process.run(this.#command(parameters));
    this.#throwIfInterrupted(`terraform ${parameters[0]}`, result);
    return result;
  }

  #command(parameters: readonly string[]) {
    const { program, cliConfig } = this.#options;
    const fence: RunFence | undefined = this.#session.fence;
    return {
      bin: program.bin,
      arguments: parameters,
      environment: { ...environmentOf(program, cliConfig), ...newSecrets() },
      fence,
      signal: this.#session.signal,
    };
  }

  #throwIfInterrupted(what: string, { interrupted }: TerraformResult): void {
    if (!interrupted) return;
    throw new ProvisionError("aborted", `${what} was interrupted; what it made is on record`);
  }

  #failed(what: string, otherwise: ProvisionErrorCode, errors: string): ProvisionError {
    const detail = errors.trim();
    const killed = detail === "" ? "Terraform ended without a word: it was killed" : detail;
    const lines = killed.replaceAll(/[│╷╵]/g, "").trim();
    const summary = lines.split("\n")[0] ?? "";
    const diagnostic: Diagnostic = {
      severity: "error",
      summary,
      detail: lines,
      address: undefined,
    };
    this.events.take({ type: "diagnostic", diagnostic });
    return runFailure(what, [diagnostic], otherwise);
  }

  async #readState(): Promise<void> {
    this.#state = (await this.#options.state?.read()) ?? this.#state;
  }
}

/**
 * For what a stack makes that needs a password: another one each time, which only the run that makes it stores, in Secrets
 * Manager. Stacks without such a variable ignore it.
 */
function newSecrets(): Record<string, string> {
  const password = randomBytes(PASSWORD_BYTES).toString("hex");
  return { [`TF_VAR_${METADATA_PASSWORD_VARIABLE}`]: password };
}

/** An id for a plan of that purpose. */
export function newPlanId(purpose: string): string {
  return `${purpose}-${randomUUID()}`;
}

/** What `newPlanId` makes, and nothing that leaves the folder. */
export function isPlanId(text: string): boolean {
  return /^[a-z]{1,16}-[0-9a-f-]{36}$/.test(text);
}

function planFile(planId: string): string {
  if (!isPlanId(planId)) throw new ProvisionError("plan_stale", `${planId} is no plan of ours`);
  return `plans/${planId}.tfplan`;
}

/** None if the output is truncated. */
function diagnosticsIn(output: string): Diagnostic[] {
  try {
    const answer: unknown = JSON.parse(output);
    if (typeof answer === "object" && answer !== null && "diagnostics" in answer) {
      const { diagnostics } = answer;
      if (Array.isArray(diagnostics)) {
        return diagnostics.flatMap((each: unknown) => diagnosticOf(each) ?? []);
      }
    }
  } catch {
    // Not started, or killed: its standard error has the reason.
  }
  return [];
}
