import { createServiceAccount as contract } from "@millrace/contract";
import { createServiceAccount } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentServiceAccount } from "./present-service-account.ts";

export const createServiceAccountProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentServiceAccount(await createServiceAccount(ctx.core, ctx.principal, input)),
  );
