import { deleteMember as contract } from "@millrace/contract";
import { deleteMember } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteMemberProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteMember(ctx.core, ctx.principal, input.member_id);
    return null;
  });
