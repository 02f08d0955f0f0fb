import type { Fence, TenantDatabase } from "@millrace/db";
import { heldOperation } from "./held-operation.ts";

/** A wake-up can be lost while the connection that brings them is: look again after this long. */
const POLL_INTERVAL_MS = 2_000;

/** The reason with which work ends that somebody asked to end. */
export class OperationCancelled extends Error {
  override readonly name = "OperationCancelled";
}

/** Sees while an operation runs whether somebody asks for its end. */
export class CancelWatch {
  readonly #abort = new AbortController();
  readonly #ending = new AbortController();
  readonly #loop: Promise<void>;

  /** Looks until `held` aborts: then the operation is not ours to end. */
  constructor(
    db: Pick<TenantDatabase, "operations" | "operationSignal">,
    fence: Fence,
    held: AbortSignal,
  ) {
    this.#loop = this.#watch(db, fence, AbortSignal.any([held, this.#ending.signal]));
  }

  /** Aborts, with an `OperationCancelled` as its reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await this.#loop;
  }

  async #watch(
    db: Pick<TenantDatabase, "operations" | "operationSignal">,
    fence: Fence,
    until: AbortSignal,
  ): Promise<void> {
    while (!until.aborted) {
      try {
        const { cancelRequestedAt } = await heldOperation(db, fence);
        if (cancelRequestedAt) {
          this.#abort.abort(new OperationCancelled("somebody asked for the operation's end"));
          return;
        }
      } catch {
        // Lost, or the database does not answer: the lease tells which.
      }
      await db.operationSignal.wait(fence.operationId, POLL_INTERVAL_MS, until);
    }
  }
}
