import type { ErrorCode } from "./error.ts";
import type { ClusterId, OperationId, OrganizationId } from "./id.ts";

export const OPERATION_KINDS = ["cluster.create", "cluster.delete"] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

export const OPERATION_PHASES = ["PENDING", "RUNNING", "SUCCEEDED", "FAILED"] as const;
export type OperationPhase = (typeof OPERATION_PHASES)[number];

export const STEP_STATES = ["PENDING", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED"] as const;
export type StepState = (typeof STEP_STATES)[number];

interface StepPlan {
  readonly name: string;
  readonly title: string;
  /** Usual duration in seconds on one machine: weighs the progress and gives the ETA. */
  readonly usualSeconds: number;
}

/** The steps of each kind, in order. A step's name is its identity in the journal. */
export const OPERATION_STEPS = {
  "cluster.create": [
    { name: "reserve_ports", title: "Reserve ports", usualSeconds: 0.2 },
    { name: "prepare_broker", title: "Write the configuration", usualSeconds: 0.2 },
    { name: "start_broker", title: "Start the broker", usualSeconds: 1 },
    { name: "wait_until_healthy", title: "Wait until the broker is healthy", usualSeconds: 2 },
    { name: "smoke_check", title: "Produce and consume a test record", usualSeconds: 2 },
    { name: "publish_endpoint", title: "Publish the endpoint", usualSeconds: 0.2 },
  ],
  "cluster.delete": [
    { name: "stop_broker", title: "Stop the broker", usualSeconds: 3 },
    { name: "delete_data", title: "Delete the data", usualSeconds: 1 },
    { name: "release_ports", title: "Release ports", usualSeconds: 0.2 },
  ],
} as const satisfies Record<OperationKind, readonly StepPlan[]>;

export type StepName<K extends OperationKind = OperationKind> =
  (typeof OPERATION_STEPS)[K][number]["name"];

export function stepsOf(kind: OperationKind): readonly StepPlan[] {
  return OPERATION_STEPS[kind];
}

export interface OperationStep {
  readonly name: string;
  readonly state: StepState;
  /** How many times the step has been begun, over all attempts of the operation. */
  readonly attempt: number;
  readonly startedAt: Date | undefined;
  readonly endedAt: Date | undefined;
  readonly message: string | undefined;
}

export interface OperationFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly step: string | undefined;
}

export interface Operation {
  readonly id: OperationId;
  readonly organizationId: OrganizationId;
  readonly clusterId: ClusterId;
  readonly kind: OperationKind;
  readonly phase: OperationPhase;
  readonly done: boolean;
  /** Fencing token: each claim raises it, and writes that carry an older one hit nothing. */
  readonly attempt: number;
  readonly steps: readonly OperationStep[];
  readonly error: OperationFailure | undefined;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly startedAt: Date | undefined;
  readonly endedAt: Date | undefined;
}

export const OPERATION_EVENT_KINDS = [
  "operation.created",
  "operation.claimed",
  "step.started",
  "step.succeeded",
  "step.skipped",
  "step.failed",
  "operation.succeeded",
  "operation.failed",
] as const;
export type OperationEventKind = (typeof OPERATION_EVENT_KINDS)[number];

/** One line of an operation's log. `seq` is dense from 1 per operation, so a reader can resume. */
export interface OperationEvent {
  readonly operationId: OperationId;
  readonly seq: number;
  readonly at: Date;
  readonly kind: OperationEventKind;
  readonly step: string | undefined;
  readonly message: string;
}

export interface Progress {
  /** 0 to 100, whole. */
  readonly percent: number;
  /** Seconds that the rest usually takes; undefined once the operation is done. */
  readonly etaSeconds: number | undefined;
}

function isComplete(state: StepState | undefined): boolean {
  return state === "SUCCEEDED" || state === "SKIPPED";
}

/** Progress weighed by what the steps usually take; 100 only when the operation has succeeded. */
export function progressOf(operation: Pick<Operation, "kind" | "phase" | "steps">): Progress {
  if (operation.phase === "SUCCEEDED") return { percent: 100, etaSeconds: undefined };
  const stateByName = new Map(operation.steps.map((step) => [step.name, step.state]));
  let total = 0;
  let complete = 0;
  for (const plan of stepsOf(operation.kind)) {
    total += plan.usualSeconds;
    if (isComplete(stateByName.get(plan.name))) complete += plan.usualSeconds;
  }
  const percent = Math.min(99, Math.floor((complete / total) * 100));
  if (operation.phase === "FAILED") return { percent, etaSeconds: undefined };
  return { percent, etaSeconds: Math.ceil(total - complete) };
}
