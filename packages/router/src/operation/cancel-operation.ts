import { cancelOperation as contract } from "@millrace/contract";
import { cancelOperation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentOperation } from "./present-operation.ts";

export const cancelOperationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentOperation(await cancelOperation(ctx.core, ctx.principal, input.operation_id)),
  );
