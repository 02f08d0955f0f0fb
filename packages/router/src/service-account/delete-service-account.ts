import { deleteServiceAccount as contract } from "@millrace/contract";
import { deleteServiceAccount } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteServiceAccountProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteServiceAccount(ctx.core, ctx.principal, input.service_account_id);
    return null;
  });
