import { type Fence, LeaseLost, type TenantDatabase } from "@millrace/db";
import type { Operation } from "@millrace/domain";

/** The operation as it is now. Throws `LeaseLost` where another attempt has it, or it is done. */
export async function heldOperation(
  db: Pick<TenantDatabase, "operations">,
  fence: Fence,
): Promise<Operation> {
  const operation = await db.operations.load(fence.operationId);
  if (operation && operation.attempt === fence.attempt && !operation.done) return operation;
  throw new LeaseLost(`attempt ${fence.attempt} of ${fence.operationId} has lost its lease`);
}
