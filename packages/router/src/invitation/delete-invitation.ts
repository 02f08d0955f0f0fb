import { deleteInvitation as contract } from "@millrace/contract";
import { deleteInvitation } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteInvitationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    await deleteInvitation(ctx.core, ctx.principal, input.invitation_id);
    return null;
  });
