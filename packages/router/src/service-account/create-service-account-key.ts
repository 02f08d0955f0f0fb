import { createServiceAccountKey as contract } from "@millrace/contract";
import { createServiceAccountKey } from "@millrace/core";
import { presentApiKey } from "../api-key/present-api-key.ts";
import { procedure } from "../procedure.ts";

export const createServiceAccountKeyProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { apiKey, secret } = await createServiceAccountKey(ctx.core, ctx.principal, {
      serviceAccountId: input.service_account_id,
      name: input.name,
      permissions: input.permissions,
      allowedAddresses: input.allowed_addresses,
      expiresAt: input.expires_at === undefined ? undefined : new Date(input.expires_at),
    });
    return { ...presentApiKey(apiKey), secret };
  });
