import { listServiceAccounts as contract } from "@millrace/contract";
import { listServiceAccounts } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentServiceAccount } from "./present-service-account.ts";

export const listServiceAccountsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const page = await listServiceAccounts(ctx.core, ctx.principal, pageInput(input));
    return presentPage(page, presentServiceAccount);
  });
