import { DomainError } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";

/** Plans made at once for callers: each is a Terraform that takes most of a core for seconds. */
const PLANS_AT_ONCE_MAX = 2;
/** Of them one organization's: what one asks for never takes all. */
const PLANS_PER_OWNER_MAX = 1;
/** Callers of one organization that wait for a slot; more are told to come back. */
const WAITING_PER_OWNER_MAX = 4;
/** Callers that wait in all. */
const WAITING_MAX = 32;
/** A plan with an account behind it reads each resource; the rest is refused waiting. */
const PLAN_TIMEOUT_MS = 60_000;
const RETRY_AFTER_SECONDS = 10;

/** Who asks for a plan. */
export interface PlanCaller {
  /** The organization. */
  readonly owner: string;
  /** Aborts when the caller has gone: its place, or its slot, is then free for others. */
  readonly signal: AbortSignal;
}

/** Bounds the plans that are made for callers, in number and time; organizations take turns. */
export class PlanSlots {
  /** By owner, who is next first. An owner without anybody waiting is not in it. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #running = new Map<string, number>();

  /**
   * Runs `plan` when a slot is free. Throws `planning_busy` where too many wait or the caller has
   * gone, `planning_timed_out`, `region_unavailable` where nothing can plan there, `planning_failed`.
   */
  async run<T>(caller: PlanCaller, plan: (signal: AbortSignal) => Promise<T>): Promise<T> {
    await this.#acquire(caller);
    const timeout = AbortSignal.timeout(PLAN_TIMEOUT_MS);
    try {
      caller.signal.throwIfAborted();
      return await plan(AbortSignal.any([timeout, caller.signal]));
    } catch (error) {
      if (timeout.aborted) throw timedOut(error);
      throw caller.signal.aborted ? busy() : refusal(error);
    } finally {
      this.#release(caller.owner);
    }
  }

  async #acquire({ owner, signal }: PlanCaller): Promise<void> {
    if (signal.aborted) throw busy();
    if (this.#mayRun(owner)) return this.#take(owner);
    const own = this.#waiting.get(owner) ?? [];
    const inAll = sum([...this.#waiting.values()].map((callers) => callers.length));
    if (own.length >= WAITING_PER_OWNER_MAX || inAll >= WAITING_MAX) throw busy();
    await new Promise<void>((resolve, reject) => {
      const begin = () => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        this.#setWaiting(
          owner,
          this.#waitingOf(owner).filter((each) => each !== begin),
        );
        reject(busy());
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#setWaiting(owner, [...own, begin]);
    });
  }

  #mayRun(owner: string): boolean {
    const free = sum([...this.#running.values()]) < PLANS_AT_ONCE_MAX;
    return free && (this.#running.get(owner) ?? 0) < PLANS_PER_OWNER_MAX;
  }

  #take(owner: string): void {
    this.#running.set(owner, (this.#running.get(owner) ?? 0) + 1);
  }

  /** The slot goes on to the organization whose turn it is, and there to who waits longest. */
  #release(owner: string): void {
    const left = (this.#running.get(owner) ?? 1) - 1;
    if (left > 0) this.#running.set(owner, left);
    else this.#running.delete(owner);
    const next = [...this.#waiting.keys()].find((each) => this.#mayRun(each));
    if (next === undefined) return;
    const [begin, ...rest] = this.#waitingOf(next);
    // Its others come after everybody else's.
    this.#waiting.delete(next);
    this.#setWaiting(next, rest);
    this.#take(next);
    begin?.();
  }

  #waitingOf(owner: string): (() => void)[] {
    return this.#waiting.get(owner) ?? [];
  }

  #setWaiting(owner: string, callers: (() => void)[]): void {
    if (callers.length === 0) this.#waiting.delete(owner);
    else this.#waiting.set(owner, callers);
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

function busy(): DomainError {
  return new DomainError("planning_busy", "Too many plans at a time.", {
    remedy: "Try again in a few seconds.",
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function timedOut(cause: unknown): DomainError {
  return new DomainError("planning_timed_out", "Planning took longer than a minute.", {
    remedy: "Try again. If it happens again, the provider responds slowly.",
    cause,
  });
}

function refusal(error: unknown): unknown {
  if (!(error instanceof ProvisionError)) return error;
  if (error.code === "busy") return busy();
  if (error.code === "broker_running") {
    return new DomainError(
      "cluster_not_ready",
      `The recovery cannot be planned: ${error.message}.`,
      {
        retryable: false,
        remedy: "Pause the cluster, then recover it.",
        cause: error,
      },
    );
  }
  if (error.code === "unconfigured") {
    return new DomainError(
      "region_unavailable",
      `This region cannot be planned: ${error.message}.`,
      {
        remedy: "Install Terraform for this installation.",
        cause: error,
      },
    );
  }
  return new DomainError("planning_failed", `Planning failed: ${error.message}.`, {
    remedy: "Try again. If it happens again, report the request ID to the operators.",
    cause: error,
  });
}
