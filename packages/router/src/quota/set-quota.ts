import { setQuota as contract } from "@millrace/contract";
import { setQuota } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentQuota } from "./present-quota.ts";

export const setQuotaProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, user, client_id: clientId, ...changes } = input;
    const request = { clusterId, entity: { user, clientId }, changes };
    return presentQuota(await setQuota(ctx.core, ctx.principal, request));
  });
