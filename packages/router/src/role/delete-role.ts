import { deleteRole as contract } from "@millrace/contract";
import { deleteRole } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteRoleProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteRole(ctx.core, ctx.principal, input.role_id);
    return null;
  });
