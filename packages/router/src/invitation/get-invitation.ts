import { getInvitation as contract } from "@millrace/contract";
import { getInvitation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentInvitation } from "./present-invitation.ts";

export const getInvitationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentInvitation(await getInvitation(ctx.core, ctx.principal, input.invitation_id)),
  );
