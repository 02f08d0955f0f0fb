import { BrokerError } from "@millrace/broker-admin";
import { PlacementTaken } from "@millrace/db";
import { DomainError, type ErrorCode, type OperationFailure } from "@millrace/domain";
import { ProvisionError, type ProvisionErrorCode } from "@millrace/provisioner";

/** The end of a broker's log is shown up to this many characters. */
const DETAIL_CHARACTERS_MAX = 2_000;

/** A step failed for good; `cause` says why. */
export class StepFailed extends Error {
  override readonly name = "StepFailed";
  readonly step: string;

  constructor(step: string, cause: unknown) {
    super(`step ${step} failed`, { cause });
    this.step = step;
  }
}

/** Whether trying the step again soon may help. What we do not know may: it is tried, bounded. */
export function isWorthRetrying(error: unknown): boolean {
  if (error instanceof DomainError || error instanceof BrokerError) return error.retryable;
  if (error instanceof ProvisionError) return error.retryable;
  return true;
}

/** What passes on its own, but not within seconds. */
const SLOW_TO_PASS: ReadonlySet<ProvisionErrorCode> = new Set([
  "throttled",
  "capacity",
  "busy",
  "broker_running",
]);

/** Times the usual pause before another try: whoever said "later" is given time. */
export function patienceFor(error: unknown): number {
  return error instanceof ProvisionError && SLOW_TO_PASS.has(error.code) ? 15 : 1;
}

/** Whether the plan does not fit what exists any more: another one is to be made. */
export function isStalePlan({ cause }: StepFailed): boolean {
  return cause instanceof ProvisionError && cause.code === "plan_stale";
}

/** Failures that have a code of their own, as the caller can do something about them. */
const PUBLIC_CODES: Partial<Record<ProvisionErrorCode, ErrorCode>> = {
  plan_failed: "planning_failed",
  policy_refused: "policy_violated",
  unconfigured: "region_unavailable",
  benchmark_failed: "benchmark_failed",
  broker_running: "cluster_not_ready",
  not_recoverable: "cluster_not_ready",
};

/** What the tenant reads. Faults that we did not foresee are named in our log only. */
export function failureOf({ step, cause }: StepFailed): OperationFailure {
  if (cause instanceof ProvisionError) {
    const detail = cause.detail ? `\n${cause.detail.slice(-DETAIL_CHARACTERS_MAX)}` : "";
    return {
      code: PUBLIC_CODES[cause.code] ?? "provisioning_failed",
      message: `${cause.message}${detail}`,
      step,
    };
  }
  if (cause instanceof BrokerError) {
    return { code: "broker_unavailable", message: cause.message, step };
  }
  if (cause instanceof DomainError) return { code: cause.code, message: cause.message, step };
  if (cause instanceof PlacementTaken) {
    return { code: "provisioning_failed", message: cause.message, step };
  }
  return {
    code: "internal",
    message: "Internal error. Operators find the details in the log.",
    step,
  };
}
