import { leaveOrganization as contract } from "@millrace/contract";
import { leaveOrganization } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const leaveOrganizationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await leaveOrganization(ctx.core, ctx.principal, input.organization_id);
    return null;
  });
