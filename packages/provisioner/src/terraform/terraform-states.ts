import type { RunFence } from "../change-plan.ts";

/**
 * One version of a cluster's Terraform state, sealed: the control plane's database keeps it and
 * cannot read it. A run's own copy is a file beside the cluster's stack; this one is at most a
 * second behind and survives the machine.
 */
export interface StoredState {
  readonly organizationId: string;
  readonly clusterId: string;
  /** Counts the sealed copies of this cluster, from 1. Part of what the ciphertext is bound to. */
  readonly version: number;
  /** Terraform's own count of changes within a lineage. */
  readonly serial: number;
  readonly lineage: string;
  readonly ciphertext: Uint8Array;
  /** The tenant's data key, wrapped by the key that `keyId` names. */
  readonly wrappedKey: Uint8Array;
  readonly keyId: string;
}

/** Where sealed states are kept. Implemented by the control plane's database. */
export interface TerraformStates {
  /** The newest version. */
  load(clusterId: string): Promise<StoredState | undefined>;

  /**
   * Adds a version. Throws `StateConflict` where that version exists already, or where the fence
   * says that another attempt has taken over.
   */
  save(state: StoredState, fence: RunFence | undefined): Promise<void>;

  /** Clusters of which there is a state. */
  clusterIds(): Promise<readonly string[]>;

  /**
   * Puts the same data key, wrapped by another key, in place of the newest version's: nothing else
   * of it changes. Does nothing where a newer version came meanwhile.
   */
  rewrap(state: StoredState, wrapped: Pick<StoredState, "wrappedKey" | "keyId">): Promise<void>;
}

/** Another worker has taken over the cluster: stop, and change nothing more. */
export class StateConflict extends Error {
  override readonly name = "StateConflict";
}
