import { openOutgoingMail as contract } from "@millrace/contract";
import { openOutgoingMail } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentOutgoingMail } from "./present-outgoing-mail.ts";

export const openOutgoingMailProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { mail, text } = await openOutgoingMail(ctx.core, ctx.principal, input.mail_id);
    return { ...presentOutgoingMail(mail), text };
  });
