/**
 * The state of one cluster in two places: Terraform's own file, which survives a `kill -9` as of the last
 * change, and encrypted versions in the control plane's database, at most a second behind.
 *
 * Before a run the newer of the two is restored; during and after it each change of the file is saved. A file
 * truncated by a crash counts as absent, and Terraform's backup of it, one change older, is considered.
 */
import { createHash } from "node:crypto";
import { rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunFence } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import type { StateSeal } from "./state-seal.ts";
import { readIfThere, replaceFile } from "./terraform-program.ts";
import { StateConflict, type StoredState, type TerraformStates } from "./terraform-states.ts";

/** How often a run checks the file; together with a save this stays below a second. */
const LOOK_INTERVAL_MS = 400;
/** Longer outages of the database are reported; the file has everything, and the next run saves it. */
const SAVE_RETRY_MS = 30_000;
const SAVE_PAUSE_MS = 500;
/** A state of the largest stack has less than a tenth of this. */
const STATE_BYTES_MAX = 16 * 1024 * 1024;

/** A resource in a state. */
export interface StateResource {
  /** Without an index: these stacks have no counted resources. */
  readonly address: string;
  readonly type: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Its creation was interrupted: the next plan would replace it. */
  readonly isTainted?: boolean;
}

export interface StateDocument {
  readonly serial: number;
  readonly lineage: string;
  readonly resources: readonly StateResource[];
  readonly text: Buffer;
}

export interface StateCopyOptions {
  readonly folder: string;
  readonly organizationId: string;
  readonly clusterId: string;
  readonly states: TerraformStates;
  readonly seal: StateSeal;
}

export interface RestoredState {
  readonly state: StateDocument | undefined;
  readonly restored: boolean;
  readonly warning?: string;
}

interface KeptState {
  readonly kept: StateDocument | undefined;
  readonly warning?: string;
}

const NOTHING_KEPT: KeptState = { kept: undefined };

/** Stored beside the file: the encrypted version that it is, or descends from. */
interface SavedNote {
  readonly version: number;
  /** Hashes saved as that version: several if a save's answer was lost. */
  readonly hashes: readonly string[];
}

const NOTED_HASHES_MAX = 100;

export class StateCopy {
  readonly #options: StateCopyOptions;
  /** Version and content of the newest known encrypted copy. */
  #version = 0;
  #savedHash = "";
  #lookedAt = 0;
  #seen = "";

  constructor(options: StateCopyOptions) {
    this.#options = options;
  }

  /** The file's state; undefined if there is no readable one. */
  async read(): Promise<StateDocument | undefined> {
    return await readState(this.#file());
  }

  /**
   * Restores the newest state. `restored` says that it did not come from the file; `warning` is for the
   * operation's log.
   */
  async restore(): Promise<RestoredState> {
    const { states, clusterId } = this.#options;
    const stored = await states.load(clusterId);
    const file = await this.read();
    if (stored) this.#version = stored.version;
    const { kept, warning } = stored ? await this.#open(stored, file) : NOTHING_KEPT;
    if (kept) this.#savedHash = hashOf(kept.text);
    const backup = file ? undefined : await readState(`${this.#file()}.backup`);
    const local = file ?? backup;
    const strange =
      kept !== undefined && local !== undefined && (await this.#isStrange(local, kept));
    const state = strange ? kept : newest(local, kept);
    if (strange && file) await rename(this.#file(), `${this.#file()}.other`);
    const restored = state !== undefined && state !== file;
    if (restored) await replaceFile(this.#file(), state.text);
    if (kept && state === kept) await this.#note([this.#savedHash], this.#version);
    return { state, restored, ...(warning === undefined ? {} : { warning }) };
  }

  /**
   * The database's copy. If it cannot be decrypted, the file is used if it is as new and of the same lineage;
   * the next save encrypts it again.
   */
  async #open(stored: StoredState, file: StateDocument | undefined): Promise<KeptState> {
    try {
      return { kept: parseState(Buffer.from(await this.#options.seal.open(stored))) };
    } catch (error) {
      if (!(error instanceof ProvisionError) || file === undefined) throw error;
      const { version } = (await this.#noted()) ?? { version: stored.version };
      const descends = file.lineage === stored.lineage && version >= stored.version;
      if (!descends || file.serial < stored.serial) throw error;
      return { kept: undefined, warning: `${error.message}; the file beside the stack is used` };
    }
  }

  /**
   * Whether the local state is outdated: of another lineage (an earlier use of this folder), or of a branch that
   * others have superseded. Serials of two branches cannot be compared.
   */
  async #isStrange(local: StateDocument, kept: StateDocument): Promise<boolean> {
    if (local.lineage !== kept.lineage) return true;
    const noted = await this.#noted();
    if (noted === undefined || noted.version > this.#version) return false;
    return noted.version < this.#version || !noted.hashes.includes(this.#savedHash);
  }

  /** Saves the file if it has changed. Cheap to call often: most calls only check its time. */
  async follow(fence: RunFence | undefined): Promise<void> {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_INTERVAL_MS) return;
    this.#lookedAt = now;
    const seen = await markOf(this.#file());
    if (seen === this.#seen) return;
    const state = await this.read();
    // Terraform is writing it now; the next check finds it complete.
    if (state === undefined) return;
    try {
      await this.#save(state, fence);
      this.#seen = seen;
    } catch (error) {
      // An unavailable database does not fail the run, and nothing is lost: the file is there.
      if (error instanceof StateConflict) throw conflict(error);
    }
  }

  /**
   * Saves the file's current content, waiting for the database up to a bound. Returns whether it is saved; after
   * `false` the next run saves the file.
   */
  async settle(fence: RunFence | undefined): Promise<boolean> {
    const state = await this.read();
    if (state === undefined) return true;
    const deadline = performance.now() + SAVE_RETRY_MS;
    for (;;) {
      try {
        await this.#save(state, fence);
        return true;
      } catch (error) {
        if (error instanceof StateConflict) throw conflict(error);
        if (performance.now() >= deadline) return false;
        await sleep(SAVE_PAUSE_MS);
      }
    }
  }

  /** Removes the local copies of a state without resources. */
  async forget(): Promise<void> {
    await rm(this.#file(), { force: true });
    await rm(`${this.#file()}.backup`, { force: true });
    await rm(this.#noteFile(), { force: true });
  }

  async #save(state: StateDocument, fence: RunFence | undefined): Promise<void> {
    const hash = hashOf(state.text);
    if (hash === this.#savedHash) return;
    const { seal, states, organizationId, clusterId } = this.#options;
    const { serial, lineage } = state;
    const version = this.#version + 1;
    const identity = { organizationId, clusterId, version, serial, lineage };
    // Before the save: after a kill, the next run must know that the version descends from this file.
    const noted = await this.#noted();
    const earlier = noted?.version === version ? noted.hashes : [];
    await this.#note([...earlier, hash].slice(-NOTED_HASHES_MAX), version);
    await states.save(await seal.seal(identity, state.text), fence);
    this.#version = version;
    this.#savedHash = hash;
  }

  async #note(hashes: readonly string[], version: number): Promise<void> {
    const note: SavedNote = { version, hashes };
    await replaceFile(this.#noteFile(), `${JSON.stringify(note)}\n`);
  }

  /** The newest version that this folder's file was, or was about to be, saved as. */
  async #noted(): Promise<SavedNote | undefined> {
    return noteIn(await readIfThere(this.#noteFile()));
  }

  #file(): string {
    return join(this.#options.folder, "terraform.tfstate");
  }

  #noteFile(): string {
    return `${this.#file()}.saved`;
  }
}

/** The state in `text`; undefined if it is incomplete. */
export function parseState(text: Buffer): StateDocument | undefined {
  try {
    const value: unknown = JSON.parse(text.toString("utf8"));
    if (typeof value !== "object" || value === null) return undefined;
    const { serial, lineage, resources } = value as Record<string, unknown>;
    if (typeof serial !== "number" || typeof lineage !== "string") return undefined;
    if (!Array.isArray(resources)) return undefined;
    return { serial, lineage, resources: resources.flatMap(resourceIn), text };
  } catch {
    return undefined;
  }
}

function noteIn(text: Buffer | undefined): SavedNote | undefined {
  try {
    const value: unknown = JSON.parse(text?.toString("utf8") ?? "");
    if (typeof value !== "object" || value === null) return undefined;
    const { version, hashes } = value as Record<string, unknown>;
    if (!Number.isSafeInteger(version) || !Array.isArray(hashes)) return undefined;
    return { version: Number(version), hashes: hashes.map(String) };
  } catch {
    // Absent, or truncated by a power failure: the serials decide.
    return undefined;
  }
}

function resourceIn(value: unknown): StateResource[] {
  if (typeof value !== "object" || value === null) return [];
  const { mode, type, name, instances } = value as Record<string, unknown>;
  if (mode !== "managed" || !Array.isArray(instances)) return [];
  return instances.map((instance: unknown) => ({
    address: `${String(type)}.${String(name)}`,
    type: String(type),
    attributes: attributesIn(instance),
    ...(isTainted(instance) && { isTainted: true }),
  }));
}

function isTainted(instance: unknown): boolean {
  if (typeof instance !== "object" || instance === null) return false;
  return "status" in instance && instance.status === "tainted";
}

function attributesIn(instance: unknown): Record<string, unknown> {
  if (typeof instance !== "object" || instance === null || !("attributes" in instance)) return {};
  const { attributes } = instance;
  return typeof attributes === "object" && attributes !== null ? { ...attributes } : {};
}

async function readState(path: string): Promise<StateDocument | undefined> {
  const text = await readIfThere(path);
  if (text === undefined || text.length > STATE_BYTES_MAX) return undefined;
  return parseState(text);
}

/** The first of equal serials, so that a file in place is not rewritten. */
function newest(
  a: StateDocument | undefined,
  b: StateDocument | undefined,
): StateDocument | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.serial > a.serial ? b : a;
}

async function markOf(path: string): Promise<string> {
  try {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true });
    return `${ino}:${size}:${mtimeNs}`;
  } catch {
    return "";
  }
}

function hashOf(text: Buffer): string {
  return createHash("sha256").update(text).digest("hex");
}

function conflict(cause: StateConflict): ProvisionError {
  const message = "another worker has taken over the cluster; this one makes no more changes";
  return new ProvisionError("aborted", message, { cause });
}
