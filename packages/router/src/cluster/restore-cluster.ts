import { restoreCluster as contract } from "@millrace/contract";
import { restoreCluster } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { procedure } from "../procedure.ts";

export const restoreClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, ifMatch: input.if_match };
    return presentOperation(await restoreCluster(ctx.core, ctx.principal, request));
  });
