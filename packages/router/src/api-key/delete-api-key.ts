import { deleteApiKey as contract } from "@millrace/contract";
import { deleteApiKey } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteApiKeyProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteApiKey(ctx.core, ctx.principal, input.api_key_id);
    return null;
  });
