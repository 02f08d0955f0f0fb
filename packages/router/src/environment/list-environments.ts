import { listEnvironments as contract } from "@millrace/contract";
import { listEnvironments } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentEnvironment } from "./present-environment.ts";

export const listEnvironmentsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const page = await listEnvironments(ctx.core, ctx.principal, pageInput(input));
    return presentPage(page, presentEnvironment);
  });
