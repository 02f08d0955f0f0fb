import { deleteQuota as contract } from "@millrace/contract";
import { deleteQuota } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteQuotaProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, user, client_id: clientId } = input;
    await deleteQuota(ctx.core, ctx.principal, { clusterId, entity: { user, clientId } });
    return null;
  });
