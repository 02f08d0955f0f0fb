import { getApiKey as contract } from "@millrace/contract";
import { getApiKey } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentApiKey } from "./present-api-key.ts";

export const getApiKeyProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentApiKey(await getApiKey(ctx.core, ctx.principal, input.api_key_id)),
  );
