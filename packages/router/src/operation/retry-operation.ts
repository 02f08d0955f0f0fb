import { retryOperation as contract } from "@millrace/contract";
import { retryOperation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentOperation } from "./present-operation.ts";

export const retryOperationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentOperation(await retryOperation(ctx.core, ctx.principal, input.operation_id)),
  );
