import { listOutgoingMails as contract } from "@millrace/contract";
import { listOutgoingMails } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentOutgoingMail } from "./present-outgoing-mail.ts";

export const listOutgoingMailsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentPage(
      await listOutgoingMails(ctx.core, ctx.principal, pageInput(input)),
      presentOutgoingMail,
    ),
  );
