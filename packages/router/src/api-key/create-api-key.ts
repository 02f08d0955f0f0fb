import { createApiKey as contract } from "@millrace/contract";
import { createApiKey } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentApiKey } from "./present-api-key.ts";

export const createApiKeyProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { apiKey, secret } = await createApiKey(ctx.core, ctx.principal, {
      name: input.name,
      role: input.role,
      permissions: input.permissions,
      allowedAddresses: input.allowed_addresses,
      expiresAt: input.expires_at === undefined ? undefined : new Date(input.expires_at),
    });
    return { ...presentApiKey(apiKey), secret };
  });
