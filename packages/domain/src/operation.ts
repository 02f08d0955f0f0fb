import type { Cluster, ClusterPhase } from "./cluster.ts";
import type { ErrorCode } from "./error.ts";
import type { BenchmarkId, ClusterId, OperationId, OrganizationId } from "./id.ts";
import type { ClusterProvider } from "./region.ts";
import type { Permission } from "./role.ts";
import type { Changer } from "./tuning.ts";

export const OPERATION_KINDS = [
  "cluster.create",
  "cluster.update",
  "cluster.pause",
  "cluster.resume",
  "cluster.restart",
  "cluster.delete",
  "cluster.restore",
  "cluster.purge",
  "cluster.reconcile",
  "cluster.check_drift",
  "cluster.recover",
  "cluster.benchmark",
] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

/** Takes a cluster away; half of one is nothing to go back to. */
export function isDeletion(kind: OperationKind): boolean {
  return kind === "cluster.delete" || kind === "cluster.purge";
}

/** What cancelling an operation takes besides `operation:cancel`: whoever may run a benchmark may end it. */
export function cancelPermission(kind: OperationKind): Permission {
  return kind === "cluster.benchmark" ? "benchmark:run" : "operation:write";
}

/** What retrying an operation takes besides `operation:write`: a retried deletion deletes. */
export function retryPermission(kind: OperationKind): Permission {
  return isDeletion(kind) ? "cluster:delete" : "operation:write";
}

/** Leaves the cluster's spec and phase as they are. */
export function isObservation(kind: OperationKind): boolean {
  return kind === "cluster.check_drift" || kind === "cluster.benchmark";
}

/**
 * `WAITING` waits for somebody's approval, with no worker at it. `CANCELLED` was ended by a caller
 * before it was through: like a FAILED one, it can be retried and then goes on.
 */
export const OPERATION_PHASES = [
  "PENDING",
  "RUNNING",
  "WAITING",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
] as const;
export type OperationPhase = (typeof OPERATION_PHASES)[number];

export const STEP_STATES = ["PENDING", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED"] as const;
export type StepState = (typeof STEP_STATES)[number];

interface StepDefinition {
  readonly name: StepName;
  readonly title: string;
  /** Usual duration in seconds: weighs the progress and gives the ETA. */
  readonly usualSeconds: number;
}

/** Every step there is. A step's name is its identity in the journal. */
const STEPS = {
  reserve_ports: { title: "Reserve ports", usualSeconds: 0.2 },
  reserve_ids: { title: "Reserve names", usualSeconds: 0.2 },
  prepare_stack: { title: "Synthesize the stack", usualSeconds: 10 },
  sweep: { title: "Find unrecorded resources", usualSeconds: 5 },
  plan: { title: "Plan the changes", usualSeconds: 1 },
  approve: { title: "Wait for approval", usualSeconds: 0.2 },
  apply: { title: "Apply the plan", usualSeconds: 240 },
  recover: { title: "Recover the metadata", usualSeconds: 10 },
  prepare_broker: { title: "Write the configuration", usualSeconds: 0.2 },
  start_broker: { title: "Start the brokers", usualSeconds: 1 },
  restart_broker: { title: "Restart the brokers if needed", usualSeconds: 3 },
  restart_one_by_one: { title: "Restart one broker at a time", usualSeconds: 10 },
  wait_until_healthy: { title: "Wait until the brokers are ready", usualSeconds: 2 },
  smoke_check: { title: "Produce and consume a test record", usualSeconds: 2 },
  create_user: { title: "Create the user admin", usualSeconds: 0.2 },
  publish_endpoint: { title: "Publish the endpoint", usualSeconds: 0.2 },
  record_pause: { title: "Record the pause", usualSeconds: 0.2 },
  stop_broker: { title: "Stop the brokers", usualSeconds: 3 },
  delete_data: { title: "Delete the data", usualSeconds: 1 },
  release_ports: { title: "Release ports", usualSeconds: 0.2 },
  verify_gone: { title: "Verify that nothing is left", usualSeconds: 5 },
  record_deletion: { title: "Record the deletion", usualSeconds: 0.2 },
  detect_drift: { title: "Check for drift", usualSeconds: 10 },
  check_load: { title: "Check the cluster's load", usualSeconds: 0.2 },
  create_benchmark_topic: { title: "Create the topic", usualSeconds: 0.5 },
  run_load: { title: "Run the load", usualSeconds: 30 },
  delete_benchmark_topic: { title: "Delete the topic", usualSeconds: 0.5 },
} as const satisfies Record<string, Omit<StepDefinition, "name">>;

export type StepName = keyof typeof STEPS;

const SERVE = ["wait_until_healthy", "publish_endpoint"] as const;
const APPLY = ["prepare_stack", "sweep", "plan", "approve", "apply"] as const;
const BENCHMARK = [
  "check_load",
  "create_benchmark_topic",
  "run_load",
  "delete_benchmark_topic",
] as const;
const RECOVER = ["plan", "approve", "recover"] as const;
/** What was not as it was made is looked at again, and not assumed to be so now. */
const SERVE_COMPARED = ["wait_until_healthy", "detect_drift", "publish_endpoint"] as const;
const SERVE_CHECKED = ["wait_until_healthy", "smoke_check", "publish_endpoint"] as const;

/** The steps of each kind, in order. */
const OPERATION_STEPS: Record<ClusterProvider, Record<OperationKind, readonly StepName[]>> = {
  local: {
    "cluster.create": [
      "reserve_ports",
      "plan",
      "approve",
      "prepare_broker",
      "start_broker",
      "wait_until_healthy",
      "smoke_check",
      "create_user",
      "publish_endpoint",
    ],
    "cluster.update": ["plan", "approve", "restart_broker", ...SERVE],
    "cluster.pause": ["plan", "approve", "stop_broker", "record_pause"],
    "cluster.resume": ["plan", "approve", "start_broker", ...SERVE],
    "cluster.restart": ["restart_one_by_one", ...SERVE],
    "cluster.delete": ["stop_broker", "delete_data", "release_ports"],
    "cluster.restore": ["plan", "approve", "prepare_broker", "start_broker", ...SERVE],
    "cluster.purge": ["stop_broker", "delete_data", "release_ports"],
    "cluster.reconcile": ["plan", "approve", "restart_broker", ...SERVE_COMPARED],
    "cluster.check_drift": ["detect_drift"],
    "cluster.recover": [...RECOVER, "start_broker", ...SERVE_CHECKED],
    "cluster.benchmark": BENCHMARK,
  },
  aws: {
    "cluster.create": ["reserve_ids", ...APPLY, ...SERVE_CHECKED],
    "cluster.update": [...APPLY, ...SERVE],
    "cluster.pause": [...APPLY, "record_pause"],
    "cluster.resume": [...APPLY, ...SERVE],
    "cluster.restart": ["restart_one_by_one", ...SERVE],
    "cluster.delete": [...APPLY, "verify_gone", "record_deletion"],
    "cluster.restore": [...APPLY, ...SERVE_CHECKED],
    "cluster.purge": [...APPLY, "verify_gone", "record_deletion"],
    "cluster.reconcile": [...APPLY, ...SERVE_COMPARED],
    "cluster.check_drift": ["prepare_stack", "detect_drift"],
    "cluster.recover": [...RECOVER, ...SERVE_CHECKED],
    "cluster.benchmark": BENCHMARK,
  },
};

export function stepsOf(kind: OperationKind, provider: ClusterProvider): readonly StepDefinition[] {
  return OPERATION_STEPS[provider][kind].map((name) => ({ name, ...STEPS[name] }));
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

/** The parts of a cluster's spec that operations change. */
export type SpecPart = Partial<
  Pick<Cluster, "name" | "labels" | "size" | "plaintextListener" | "brokers" | "aws" | "paused">
>;

/** How a cluster was left when an operation on it was accepted: where it goes back to. */
export interface OperationOrigin {
  readonly phase: ClusterPhase;
  readonly revision: number;
  /** ISO 8601; undefined where the cluster was not deleted. */
  readonly purgeAt: string | undefined;
  /** As they were: the parts that the operation changes. */
  readonly spec: SpecPart;
}

/** What was asked for, and what it was asked of. */
export interface OperationParameters {
  /** The plan waits for somebody to approve it. */
  readonly requireApproval?: boolean | undefined;
  /** Of a deletion: days for which the data is kept; with 0 it goes with the cluster. */
  readonly retainDays?: number | undefined;
  /** What changes of the spec. */
  readonly spec?: SpecPart | undefined;
  readonly origin?: OperationOrigin | undefined;
  /** Of a restart: the only broker that it is for. */
  readonly brokerId?: number | undefined;
  /** What a benchmark's operation is about. */
  readonly benchmark?: { readonly id: BenchmarkId; readonly durationSeconds: number } | undefined;
}

/** Whoever approved a plan approved exactly the one with this digest. */
export interface Approval {
  readonly digest: string;
  readonly approvedBy: string;
  readonly approvedAt: Date;
}

export interface Operation {
  readonly id: OperationId;
  readonly organizationId: OrganizationId;
  readonly clusterId: ClusterId;
  readonly kind: OperationKind;
  readonly provider: ClusterProvider;
  readonly parameters: OperationParameters;
  readonly approval: Approval | undefined;
  /** Who asked for it; undefined where the worker began it. */
  readonly createdBy: Changer | undefined;
  readonly cancelRequestedAt: Date | undefined;
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
  "log",
  "operation.waiting",
  "operation.approved",
  "operation.cancel_requested",
  "operation.retried",
  "operation.succeeded",
  "operation.failed",
  "operation.cancelled",
] as const;
export type OperationEventKind = (typeof OPERATION_EVENT_KINDS)[number];

export const LOG_LEVELS = ["info", "warning", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Lines of what a step runs, kept per operation; what comes after is counted, not kept. */
export const OPERATION_LOG_EVENTS_MAX = 5_000;

/** One line of an operation's log. `seq` is dense from 1 per operation, so a reader can resume. */
export interface OperationEvent {
  readonly operationId: OperationId;
  readonly seq: number;
  readonly at: Date;
  readonly kind: OperationEventKind;
  readonly step: string | undefined;
  readonly message: string;
  /** Of a `log` line alone. */
  readonly level: LogLevel | undefined;
  /** The resource that a `log` line is about. */
  readonly address: string | undefined;
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

/** How long a load has run. */
function runSeconds(step: OperationStep | undefined, now: Date | undefined): number {
  if (step?.name !== "run_load" || step.state !== "RUNNING") return 0;
  if (step.startedAt === undefined || now === undefined) return 0;
  return Math.max(0, (now.getTime() - step.startedAt.getTime()) / 1_000);
}

/**
 * Progress weighed by what the steps usually take; 100 only when the operation has succeeded. A load
 * takes exactly as long as was asked, so it counts by the time that it has run at `now`.
 */
export function progressOf(
  operation: Pick<Operation, "kind" | "provider" | "phase" | "steps"> &
    Partial<Pick<Operation, "parameters">>,
  now?: Date,
): Progress {
  if (operation.phase === "SUCCEEDED") return { percent: 100, etaSeconds: undefined };
  const stepByName = new Map(operation.steps.map((step) => [step.name, step]));
  let total = 0;
  let complete = 0;
  for (const plan of stepsOf(operation.kind, operation.provider)) {
    const asked = operation.parameters?.benchmark?.durationSeconds;
    const seconds = plan.name === "run_load" ? (asked ?? plan.usualSeconds) : plan.usualSeconds;
    total += seconds;
    const step = stepByName.get(plan.name);
    if (isComplete(step?.state)) complete += seconds;
    else if (asked !== undefined) complete += Math.min(seconds, runSeconds(step, now));
  }
  const percent = Math.min(99, Math.floor((complete / total) * 100));
  // Nobody knows when an approval comes.
  if (operation.phase !== "PENDING" && operation.phase !== "RUNNING") {
    return { percent, etaSeconds: undefined };
  }
  return { percent, etaSeconds: Math.ceil(total - complete) };
}
