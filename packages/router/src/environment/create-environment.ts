import { createEnvironment as contract } from "@millrace/contract";
import { createEnvironment } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentEnvironment } from "./present-environment.ts";

export const createEnvironmentProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentEnvironment(await createEnvironment(ctx.core, ctx.principal, input)),
  );
