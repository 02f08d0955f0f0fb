import { type Fence, LeaseLost, type OperationJournal } from "@millrace/db";

/** Renewals per lease: two may fail before the lease runs out. */
const RENEWALS_PER_LEASE = 3;

/** Keeps a claimed operation ours for as long as this process lives, and says when it no longer is. */
export class Lease {
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #heldUntil: number;

  constructor(journal: Pick<OperationJournal, "renew">, fence: Fence, leaseMs: number) {
    this.#heldUntil = performance.now() + leaseMs;
    this.#timer = setInterval(() => {
      void this.#renew(journal, fence, leaseMs);
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
      if (!(error instanceof LeaseLost) && performance.now() < this.#heldUntil) return;
      this.end();
      this.#abort.abort(error instanceof LeaseLost ? error : new LeaseLost("not renewed in time"));
    }
  }
}
