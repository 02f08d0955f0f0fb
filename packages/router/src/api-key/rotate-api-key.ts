import { rotateApiKey as contract } from "@millrace/contract";
import { rotateApiKey } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentApiKey } from "./present-api-key.ts";

export const rotateApiKeyProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { api_key_id: id, overlap_hours: overlapHours } = input;
    const { apiKey, secret } = await rotateApiKey(ctx.core, ctx.principal, { id, overlapHours });
    return { ...presentApiKey(apiKey), secret };
  });
