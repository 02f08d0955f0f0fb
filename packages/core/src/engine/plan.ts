import type { Fence } from "@millrace/db";
import type { Cluster, OperationKind, StepName } from "@millrace/domain";
import type { WorkerTools } from "./worker-tools.ts";

export interface StepContext {
  readonly tools: WorkerTools;
  /** The cluster as it was right before this try of the step. */
  readonly cluster: Cluster;
  /** Goes with every write: it hits nothing once another worker has taken over. */
  readonly fence: Fence;
  /** Aborts when the lease is lost or the worker stops; the step may then end in any way. */
  readonly signal: AbortSignal;
}

/**
 * One step. It may be interrupted at any instant and is then run again, by another process, from
 * its beginning: `check` finds out whether the effect is there already, and `do` is idempotent.
 */
export interface Step {
  readonly name: StepName;
  /** Whether the step's effect holds. A step without one is done when its journal entry says so. */
  readonly check?: (context: StepContext) => Promise<boolean>;
  readonly do: (context: StepContext) => Promise<void>;
}

/** How one kind of operation is carried out. */
export interface Plan {
  readonly kind: OperationKind;
  readonly steps: readonly Step[];
  /** Leaves nothing running after a failure. Idempotent, like a step. */
  readonly cleanUp?: (context: StepContext) => Promise<void>;
}
