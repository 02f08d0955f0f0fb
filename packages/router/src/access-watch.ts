import { authorize } from "@millrace/auth";
import { DomainError, notFound, type Permission, type Principal } from "@millrace/domain";
import type { RequestContext } from "./context.ts";

/** How often a request that still runs is authenticated again. */
const CHECK_INTERVAL_MS = 1_500;
/**
 * So long after the start of the last successful check, access counts as lost: checks hang or fail, so
 * nobody knows whether the credential was revoked.
 */
const UNCONFIRMED_MS_MAX = 4_500;
/** A deadline that is noticed so late tells of a process that stood still: no check could succeed. */
const STALL_MS_MIN = 250;
/** How long the check after a standstill may take. */
const LAST_CHECK_MS_MAX = 500;
/** The caller of a stream that has ended has this long to read what is left. */
const END_MS_MAX = 500;

/**
 * Access of a request while it runs, so that streams and long polls end within five seconds after
 * their key, session, membership or permission was revoked. Short requests end before the first
 * check. `stop` has to be called when the request ends.
 */
export class AccessWatch {
  readonly #ctx: RequestContext;
  readonly #principal: Principal;
  readonly #permission: Permission;
  readonly #ended = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #deadline: NodeJS.Timeout | undefined;
  #checking = false;
  #hasStalled = false;
  /** Start of the last check that succeeded. */
  #confirmedAt = performance.now();
  #lost: DomainError | undefined;
  #isStopped = false;

  /** `principal` was authenticated and holds `permission`. */
  constructor(ctx: RequestContext, principal: Principal, permission: Permission) {
    this.#ctx = ctx;
    this.#principal = principal;
    this.#permission = permission;
    this.#timer = setInterval(() => {
      if (!this.#checking) void this.#check();
    }, CHECK_INTERVAL_MS);
    this.#timer.unref();
    this.#expireAt(this.#confirmedAt + UNCONFIRMED_MS_MAX);
    if (ctx.signal.aborted) this.stop();
    else ctx.signal.addEventListener("abort", this.stop, { once: true });
  }

  /** Aborts when access is lost. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Throws the reason once access is lost. */
  assert(): void {
    if (this.#lost) throw this.#lost;
  }

  readonly stop = (): void => {
    clearInterval(this.#timer);
    clearTimeout(this.#deadline);
    this.#isStopped = true;
    this.#ctx.signal.removeEventListener("abort", this.stop);
  };

  /**
   * The items for as long as there is access. Fails with `failure` of the reason afterwards, also
   * where `items` end or fail because `signal` has aborted. Stops the watch at the end.
   */
  guard<T>(
    items: AsyncIterator<T>,
    failure: (reason: unknown) => Error,
  ): AsyncIterableIterator<T, undefined> {
    const end = (): IteratorResult<T, undefined> => {
      this.stop();
      if (this.#lost) throw failure(this.#lost);
      return { done: true, value: undefined };
    };
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: async () => {
        if (this.#lost) return end();
        try {
          const result = await items.next();
          return result.done || this.#lost ? end() : result;
        } catch (error) {
          this.stop();
          throw this.#lost ? failure(this.#lost) : error;
        }
      },
      return: async () => {
        this.stop();
        await items.return?.();
        return { done: true, value: undefined };
      },
    };
  }

  async #check(): Promise<void> {
    const startedAt = performance.now();
    this.#checking = true;
    try {
      const now = await this.#ctx.authenticateAgain();
      // A person who left this organization may belong to another one.
      const { organizationId } = this.#principal;
      if (now.organizationId !== organizationId) throw notFound("organization", organizationId);
      authorize(now, this.#permission);
      this.#confirm(startedAt);
    } catch (error) {
      if (error instanceof DomainError) this.#lose(error);
    } finally {
      this.#checking = false;
    }
  }

  #confirm(startedAt: number): void {
    // The check after a standstill may have overtaken an older one.
    if (this.#isStopped || startedAt <= this.#confirmedAt) return;
    this.#confirmedAt = startedAt;
    this.#hasStalled = false;
    this.#expireAt(startedAt + UNCONFIRMED_MS_MAX);
  }

  #expireAt(time: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#expire(time), time - performance.now());
    this.#deadline.unref();
  }

  #expire(time: number): void {
    const now = performance.now();
    if (this.#hasStalled || now - time < STALL_MS_MIN) {
      this.#lose(unconfirmed());
      return;
    }
    this.#hasStalled = true;
    this.#expireAt(now + LAST_CHECK_MS_MAX);
    void this.#check();
  }

  #lose(reason: DomainError): void {
    this.#lost ??= reason;
    this.stop();
    this.#ended.abort();
    // A caller that does not read cannot be told; its connection ends.
    this.#ctx.cutAfter(END_MS_MAX);
  }
}

function unconfirmed(): DomainError {
  return new DomainError("internal", "The credentials could not be verified again.", {
    remedy: "Send the request again.",
  });
}
