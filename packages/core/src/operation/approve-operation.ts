import { DomainError, type Operation, type OperationId, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { requireOperation } from "./require-operation.ts";

export interface ApproveOperationInput {
  readonly operationId: OperationId;
  /** Of the plan that somebody looked at. */
  readonly digest: string;
}

/**
 * Approves the plan that an operation waits with; it goes on and applies exactly that one. Throws
 * `not_found`, `approval_not_awaited`, `plan_changed` where the plan is another one by now.
 */
export async function approveOperation(
  core: Core,
  principal: Principal,
  { operationId, digest }: ApproveOperationInput,
): Promise<Operation> {
  const operation = await requireOperation(core, principal, operationId);
  const by = await changerBehind(core, principal);
  await core.db.transaction(async (tx) => {
    const stored = await tx.operationPlans.get(operation.id);
    if (operation.phase !== "WAITING" || !stored) throw notAwaited(operation);
    if (stored.digest !== digest) {
      throw new DomainError("plan_changed", `Operation ${operationId} has another plan now.`, {
        remedy: "Read the operation's plan again and approve its digest.",
      });
    }
    const approved = await tx.operations.approve(operation.id, digest, by);
    if (!approved) throw notAwaited(operation);
    await tx.deliver(operation.id);
  });
  return requireOperation(core, principal, operationId);
}

function notAwaited({ id, phase }: Operation): DomainError {
  return new DomainError("approval_not_awaited", `Operation ${id} is ${phase}.`, {
    remedy: "Only operations in phase WAITING can be approved.",
  });
}
