import { listRoles as contract } from "@millrace/contract";
import { listRoles } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentRole } from "./present-role.ts";

export const listRolesProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => ({
    items: (await listRoles(ctx.core, ctx.principal)).map(presentRole),
  }));
