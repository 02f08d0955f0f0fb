import { getQuotaUsage as contract } from "@millrace/contract";
import { getQuotaUsage } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const getQuotaUsageProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const usage = await getQuotaUsage(ctx.core, ctx.principal, input.cluster_id);
    return {
      items: usage.map(({ quota, user, clientId, limit, rate, throttleMs }) => ({
        ...{ quota, user: user ?? null, client_id: clientId ?? null },
        ...{ limit, rate, throttle_ms: throttleMs },
      })),
    };
  });
