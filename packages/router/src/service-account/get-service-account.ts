import { getServiceAccount as contract } from "@millrace/contract";
import { getServiceAccount } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentServiceAccount } from "./present-service-account.ts";

export const getServiceAccountProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentServiceAccount(
      await getServiceAccount(ctx.core, ctx.principal, input.service_account_id),
    ),
  );
