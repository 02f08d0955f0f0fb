import { approveOperation as contract } from "@millrace/contract";
import { approveOperation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentOperation } from "./present-operation.ts";

export const approveOperationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { operationId: input.operation_id, digest: input.digest };
    return presentOperation(await approveOperation(ctx.core, ctx.principal, request));
  });
