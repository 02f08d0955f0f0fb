import { DomainError } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";

/** Plans made at once for callers: each is a Terraform that takes most of a core for seconds. */
const PLANS_AT_ONCE_MAX = 2;
/** Callers that wait for one to end; more are told to come back. */
const WAITING_MAX = 8;
/** A plan with an account behind it reads each resource; the rest is refused waiting. */
const PLAN_TIMEOUT_MS = 60_000;
const RETRY_AFTER_SECONDS = 10;

/** Bounds the plans that are made for callers, in number and time. */
export class PlanSlots {
  readonly #waiting: (() => void)[] = [];
  #free = PLANS_AT_ONCE_MAX;

  /**
   * Runs `plan` when a slot is free. Throws `planning_busy`, `planning_timed_out`,
   * `region_unavailable` where nothing can plan there, `planning_failed`.
   */
  async run<T>(plan: (signal: AbortSignal) => Promise<T>): Promise<T> {
    await this.#acquire();
    const signal = AbortSignal.timeout(PLAN_TIMEOUT_MS);
    try {
      return await plan(signal);
    } catch (error) {
      throw refusal(error, signal);
    } finally {
      this.#release();
    }
  }

  async #acquire(): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    if (this.#waiting.length >= WAITING_MAX) throw busy();
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** A slot goes on to who waits longest. */
  #release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}

function busy(): DomainError {
  return new DomainError("planning_busy", "Too many plans are being made.", {
    remedy: "Try again in some seconds.",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function refusal(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) {
    return new DomainError("planning_timed_out", "The plan was not made in a minute.", {
      remedy: "Try again; if it stays, the provider of the region answers slowly.",
      cause: error,
    });
  }
  if (!(error instanceof ProvisionError)) return error;
  if (error.code === "busy") return busy();
  if (error.code === "unconfigured") {
    return new DomainError(
      "region_unavailable",
      `The region cannot be planned: ${error.message}.`,
      {
        remedy: "Set up Terraform for this installation.",
        cause: error,
      },
    );
  }
  return new DomainError("planning_failed", `The plan could not be made: ${error.message}.`, {
    remedy: "Try again; if it stays, tell the operators the request id.",
    cause: error,
  });
}
