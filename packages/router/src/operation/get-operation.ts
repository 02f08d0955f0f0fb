import { getOperation as contract } from "@millrace/contract";
import { getOperation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentOperation } from "./present-operation.ts";

export const getOperationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const operation = await getOperation(ctx.core, ctx.principal, {
      operationId: input.operation_id,
      waitMs: Number.parseInt(input.wait ?? "0", 10) * 1_000,
      signal: ctx.signal,
    });
    return presentOperation(operation);
  });
