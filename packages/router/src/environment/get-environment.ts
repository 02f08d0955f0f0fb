import { getEnvironment as contract } from "@millrace/contract";
import { getEnvironment } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentEnvironment } from "./present-environment.ts";

export const getEnvironmentProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentEnvironment(await getEnvironment(ctx.core, ctx.principal, input.environment_id)),
  );
