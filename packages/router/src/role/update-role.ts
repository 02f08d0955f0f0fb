import { updateRole as contract } from "@millrace/contract";
import { updateRole } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentRole } from "./present-role.ts";

export const updateRoleProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { role_id: roleId, ...change } = input;
    return presentRole(await updateRole(ctx.core, ctx.principal, { roleId, ...change }));
  });
