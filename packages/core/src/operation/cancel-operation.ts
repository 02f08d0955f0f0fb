import { authorize } from "@millrace/auth";
import {
  cancelPermission,
  DomainError,
  isDeletion,
  type Operation,
  type OperationId,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { recordUnfinished } from "../engine/index.ts";
import { requireOperation } from "./require-operation.ts";

/**
 * Asks an operation to end before it is through: at once where nobody works at it, else at the next
 * safe point. Throws `not_found`, `forbidden` where the caller may not start such an operation,
 * `operation_not_cancellable` where it is done.
 */
export async function cancelOperation(
  core: Core,
  principal: Principal,
  id: OperationId,
): Promise<Operation> {
  const operation = await requireOperation(core, principal, id);
  authorize(principal, cancelPermission(operation.kind));
  if (isDeletion(operation.kind)) {
    throw new DomainError("operation_not_cancellable", "A deletion cannot be cancelled.", {
      remedy: "Restore the cluster afterwards, if its data is kept.",
    });
  }
  await core.db.transaction(async (tx) => {
    const answer = await tx.operations.requestCancel(operation.id);
    if (answer === undefined) {
      throw new DomainError("operation_not_cancellable", `Operation ${id} is done.`, {
        remedy: "Start another operation to undo it.",
      });
    }
    if (answer !== "cancelled") return;
    const cluster = await tx.clusters.load(operation.clusterId);
    // As it was left: a worker may have been at it since it was read.
    const left = await tx.operations.load(operation.id);
    if (!cluster || !left) return;
    const why = { reason: "Cancelled", message: "The operation was cancelled." } as const;
    await recordUnfinished(tx, core.clock, cluster, left, why);
  });
  return requireOperation(core, principal, id);
}
