import { createRole as contract } from "@millrace/contract";
import { createRole } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentRole } from "./present-role.ts";

export const createRoleProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentRole(await createRole(ctx.core, ctx.principal, input)),
  );
