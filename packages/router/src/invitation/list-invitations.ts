import { listInvitations as contract } from "@millrace/contract";
import { listInvitations } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentInvitation } from "./present-invitation.ts";

export const listInvitationsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentPage(
      await listInvitations(ctx.core, ctx.principal, pageInput(input)),
      presentInvitation,
    ),
  );
