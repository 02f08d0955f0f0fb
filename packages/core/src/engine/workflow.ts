import type { Fence } from "@millrace/db";
import type { Cluster, Operation, StepName } from "@millrace/domain";
import type { ClusterDriver, RunEvent } from "@millrace/provisioner";
import type { OperationTools } from "./worker-tools.ts";

export interface StepContext {
  readonly tools: OperationTools;
  /** Of the cluster's region. */
  readonly driver: ClusterDriver;
  /** The operation as it was right before this try of the step. */
  readonly operation: Operation;
  /** The cluster as it was right before this try of the step. */
  readonly cluster: Cluster;
  /** Goes with every write: it hits nothing once another worker has taken over. */
  readonly fence: Fence;
  /**
   * Aborts when the lease is lost, the worker stops, or somebody cancels the operation; the step may
   * then end in any way.
   */
  readonly signal: AbortSignal;
  /** A line for the operation's log. Never waits, never throws. */
  readonly onEvent: (event: RunEvent) => void;
}

/** What a step did instead of its work, and why. */
export interface Skipped {
  readonly skipped: string;
}

/**
 * One step. It may be interrupted at any instant and is then run again, by another process, from
 * its beginning: `check` finds out whether the effect is there already, and `do` is idempotent.
 */
export interface Step {
  /** Whether the step's effect holds. A step without one is done when its journal entry says so. */
  readonly check?: (context: StepContext) => Promise<boolean>;
  readonly do: (context: StepContext) => Promise<Skipped | undefined>;
}

export interface NamedStep extends Step {
  readonly name: StepName;
}

/** The steps of one kind of operation. */
export interface Workflow {
  readonly steps: readonly NamedStep[];
  /** Leaves nothing running after a failure. Idempotent, like a step. */
  readonly cleanUp?: (context: StepContext) => Promise<void>;
}

/** Thrown by a step: the operation waits until somebody approves its plan. */
export class ApprovalAwaited extends Error {
  override readonly name = "ApprovalAwaited";
}
