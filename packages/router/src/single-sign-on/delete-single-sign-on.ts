import { deleteSingleSignOn as contract } from "@millrace/contract";
import { deleteSingleSignOn } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteSingleSignOnProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx }) => {
    await deleteSingleSignOn(ctx.core, ctx.principal);
    return null;
  });
