import { deleteOtherSessions as contract } from "@millrace/contract";
import { deleteOtherSessions } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteOtherSessionsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx }) => {
    await deleteOtherSessions(ctx.core, ctx.principal);
    return null;
  });
