import { createInvitation as contract } from "@millrace/contract";
import { createInvitation } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentInvitation } from "./present-invitation.ts";

export const createInvitationProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { email, role, expires_in_days: days } = input;
    const made = await createInvitation(ctx.core, ctx.principal, { email, role, days });
    return { ...presentInvitation(made.invitation), token: made.token };
  });
