import { deleteSession as contract } from "@millrace/contract";
import { deleteSession } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteSessionProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteSession(ctx.core, ctx.principal, input.session_id);
    return null;
  });
