import { deleteEnvironment as contract } from "@millrace/contract";
import { deleteEnvironment } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteEnvironmentProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteEnvironment(ctx.core, ctx.principal, input.environment_id);
    return null;
  });
