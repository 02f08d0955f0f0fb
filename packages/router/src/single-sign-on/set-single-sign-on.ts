import { setSingleSignOn as contract } from "@millrace/contract";
import { setSingleSignOn } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentSingleSignOn } from "./present-single-sign-on.ts";

export const setSingleSignOnProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { issuer, domains, required } = input;
    const request = {
      ...{ issuer, domains, required },
      clientId: input.client_id,
      clientSecret: input.client_secret,
      defaultRole: input.default_role,
    };
    const connection = await setSingleSignOn(ctx.core, ctx.principal, request);
    return presentSingleSignOn(ctx.core, connection);
  });
