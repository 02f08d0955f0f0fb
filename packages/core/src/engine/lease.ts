import { type Fence, LeaseLost, type OperationJournal } from "@millrace/db";

/** Renewals per lease: two may fail before the lease runs out. */
const RENEWALS_PER_LEASE = 3;

/** Keeps a claimed operation ours for as long as this process lives, and says when it no longer is. */
export class Lease {
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #heldUntil: number;

  /** `askedMs` is when the claim was asked for, by `performance.now()`: the lease runs since then. */
  constructor(
    journal: Pick<OperationJournal, "renew">,
    fence: Fence,
    leaseMs: number,
    askedMs: number,
  ) {
    this.#heldUntil = askedMs + leaseMs;
    this.#timer = setInterval(() => {
      // A renewal that never answers must not keep what is another worker's by now.
      if (performance.now() >= this.#heldUntil) this.#lose(new LeaseLost("not renewed in time"));
      else void this.#renew(journal, fence, leaseMs);
    }, leaseMs / RENEWALS_PER_LEASE);
  }

  /** Aborts, with a `LeaseLost` as its reason, once the operation may be another worker's. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  end(): void {
    clearInterval(this.#timer);
  }

  async #renew(
    journal: Pick<OperationJournal, "renew">,
    fence: Fence,
    leaseMs: number,
  ): Promise<void> {
    const asked = performance.now();
    try {
      await journal.renew(fence, leaseMs);
      this.#heldUntil = asked + leaseMs;
    } catch (error) {
      // A database that does not answer is no proof: the lease holds until its time is over.
      // The next tick looks at that.
      if (error instanceof LeaseLost) this.#lose(error);
    }
  }

  #lose(reason: LeaseLost): void {
    this.end();
    this.#abort.abort(reason);
  }
}
