import { isId, notFound, type Operation, type OperationId, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";

/** The tenant's operation, or `not_found` as for an id that does not exist. */
export async function requireOperation(
  core: Pick<Core, "db">,
  principal: Principal,
  id: OperationId,
): Promise<Operation> {
  const operation = isId("op", id)
    ? await core.db.operations.get(principal.organizationId, id)
    : undefined;
  if (!operation) throw notFound("operation", id);
  return operation;
}
