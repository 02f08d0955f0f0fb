import { getRole as contract } from "@millrace/contract";
import { getRole } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentRole } from "./present-role.ts";

export const getRoleProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentRole(await getRole(ctx.core, ctx.principal, input.role_id)),
  );
