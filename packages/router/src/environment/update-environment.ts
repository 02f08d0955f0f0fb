import { updateEnvironment as contract } from "@millrace/contract";
import { updateEnvironment } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentEnvironment } from "./present-environment.ts";

export const updateEnvironmentProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { environmentId: input.environment_id, name: input.name };
    return presentEnvironment(await updateEnvironment(ctx.core, ctx.principal, request));
  });
