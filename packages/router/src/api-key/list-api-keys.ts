import { listApiKeys as contract } from "@millrace/contract";
import { listApiKeys } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentApiKey } from "./present-api-key.ts";

export const listApiKeysProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const { service_account_id: serviceAccountId } = input;
    const page = { ...pageInput(input), serviceAccountId };
    return presentPage(await listApiKeys(ctx.core, ctx.principal, page), presentApiKey);
  });
