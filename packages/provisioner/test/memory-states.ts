import type { RunFence } from "../src/change-plan.ts";
import { StateConflict, type StoredState, type TerraformStates } from "../src/index.ts";

/** The database's part, in memory: with its refusals, and with failures on demand. */
export class MemoryStates implements TerraformStates {
  readonly saved: StoredState[] = [];
  /** So many saves fail before one succeeds. */
  failures = 0;
  /** A save of an older attempt is refused. */
  newestAttempt = 0;

  async load(clusterId: string): Promise<StoredState | undefined> {
    return this.saved.findLast((each) => each.clusterId === clusterId);
  }

  async save(state: StoredState, fence: RunFence | undefined): Promise<void> {
    if (this.failures > 0) {
      this.failures -= 1;
      throw new Error("the database is away");
    }
    if (fence && fence.attempt < this.newestAttempt) throw new StateConflict("an older attempt");
    const newest = await this.load(state.clusterId);
    if (newest && state.version <= newest.version) throw new StateConflict("that version exists");
    this.saved.push(state);
  }

  async clusterIds(): Promise<readonly string[]> {
    return [...new Set(this.saved.map((each) => each.clusterId))];
  }

  async rewrap(
    state: StoredState,
    wrapped: Pick<StoredState, "wrappedKey" | "keyId">,
  ): Promise<void> {
    const at = this.saved.findIndex(
      (each) => each.clusterId === state.clusterId && each.version === state.version,
    );
    if (at >= 0) this.saved[at] = { ...state, ...wrapped };
  }
}
