import type { OperationEvent, OperationId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { holding } from "../request-slots.ts";
import { requireOperation } from "./require-operation.ts";

/** Events read at once; a reader that is far behind goes round more often. */
const BATCH_MAX = 100;
/** A wake-up can be lost while the connection that brings them is: look again after this long. */
const POLL_INTERVAL_MS = 1_000;

export interface WatchOperationInput {
  readonly operationId: OperationId;
  /** seq of the last event that the reader has seen; 0 from the first one on. */
  readonly afterSeq: number;
  readonly signal: AbortSignal;
}

/**
 * The operation's events in order, each exactly once, from `afterSeq` on; ends when the operation
 * is done and its last event has been given, or when `signal` aborts. Throws `rate_limited` where too many are
 * watched, and `not_found` at the first step.
 */
export function watchOperation(
  core: Core,
  principal: Principal,
  input: WatchOperationInput,
): AsyncIterableIterator<OperationEvent, void> {
  const release = core.requestSlots.acquire("watch", principal);
  return holding(events(core, principal, input), input.signal, release);
}

async function* events(
  core: Core,
  principal: Principal,
  { operationId, afterSeq, signal }: WatchOperationInput,
): AsyncGenerator<OperationEvent, void, undefined> {
  let seen = afterSeq;
  while (!signal.aborted) {
    // Read before the events: an operation that is done by now has all its events written.
    const { done } = await requireOperation(core, principal, operationId);
    const next = await core.db.operations.events(operationId, seen, BATCH_MAX);
    for (const event of next) {
      yield event;
      seen = event.seq;
    }
    if (next.length > 0) continue;
    if (done) return;
    await core.db.operationSignal.wait(operationId, POLL_INTERVAL_MS, signal);
  }
}
