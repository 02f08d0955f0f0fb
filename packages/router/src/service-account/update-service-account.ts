import { updateServiceAccount as contract } from "@millrace/contract";
import { updateServiceAccount } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentServiceAccount } from "./present-service-account.ts";

export const updateServiceAccountProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { service_account_id: serviceAccountId, ...change } = input;
    const changed = await updateServiceAccount(ctx.core, ctx.principal, {
      ...{ serviceAccountId, ...change },
    });
    return presentServiceAccount(changed);
  });
