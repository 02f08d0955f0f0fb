import type { RunFence } from "../change-plan.ts";

/**
 * One encrypted version of a cluster's Terraform state, in the control plane's database, which cannot read it.
 * A run's own copy is a file beside the cluster's stack; this one is at most a second behind and survives the
 * machine.
 */
export interface StoredState {
  readonly organizationId: string;
  readonly clusterId: string;
  /** Number of the encrypted copy of this cluster, from 1. The ciphertext is bound to it. */
  readonly version: number;
  /** Terraform's own count of changes within a lineage. */
  readonly serial: number;
  readonly lineage: string;
  readonly ciphertext: Uint8Array;
  /** The tenant's data key, wrapped by the key that `keyId` names. */
  readonly wrappedKey: Uint8Array;
  readonly keyId: string;
}

/** Storage for encrypted states, implemented by the control plane's database. */
export interface TerraformStates {
  /** The newest version. */
  load(clusterId: string): Promise<StoredState | undefined>;

  /**
   * Adds a version. Throws `StateConflict` if that version exists already, or if the fence says that another
   * attempt has taken over.
   */
  save(state: StoredState, fence: RunFence | undefined): Promise<void>;

  /** Clusters with a stored state. */
  clusterIds(): Promise<readonly string[]>;

  /**
   * Replaces the newest version's wrapped data key by the same key, wrapped by another one; nothing else
   * changes. Does nothing if there is a newer version by now.
   */
  rewrap(state: StoredState, wrapped: Pick<StoredState, "wrappedKey" | "keyId">): Promise<void>;
}

/** Another worker has taken over the cluster: stop, and change nothing more. */
export class StateConflict extends Error {
  override readonly name = "StateConflict";
}
