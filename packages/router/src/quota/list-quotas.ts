import { listQuotas as contract } from "@millrace/contract";
import { listQuotas } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentQuota } from "./present-quota.ts";

export const listQuotasProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listQuotas(ctx.core, ctx.principal, request), presentQuota);
  });
