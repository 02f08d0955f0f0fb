import type { Operation, OperationId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireOperation } from "./require-operation.ts";

/** A wake-up can be lost while the connection that brings them is: look again after this long. */
const POLL_INTERVAL_MS = 1_000;

export interface GetOperationInput {
  readonly operationId: OperationId;
  /** Holds the answer until the operation is done, at most this long. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Throws `not_found`, and `rate_limited` where too many requests wait. */
export async function getOperation(
  core: Core,
  principal: Principal,
  { operationId, waitMs = 0, signal }: GetOperationInput,
): Promise<Operation> {
  const operation = await requireOperation(core, principal, operationId);
  if (operation.done || waitMs === 0) return operation;
  const release = core.requestSlots.acquire("wait", principal);
  try {
    return await doneWithin(core, principal, operation, { waitMs, signal });
  } finally {
    release();
  }
}

async function doneWithin(
  core: Core,
  principal: Principal,
  found: Operation,
  { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal | undefined },
): Promise<Operation> {
  const deadline = performance.now() + waitMs;
  const { id } = found;
  let operation = found;
  while (!operation.done && !signal?.aborted) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) break;
    await core.db.operationSignal.wait(id, Math.min(leftMs, POLL_INTERVAL_MS), signal);
    operation = await requireOperation(core, principal, id);
  }
  return operation;
}
