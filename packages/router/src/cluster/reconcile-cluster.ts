import { reconcileCluster as contract } from "@millrace/contract";
import { reconcileCluster } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { procedure } from "../procedure.ts";

export const reconcileClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, ifMatch: input.if_match };
    return presentOperation(await reconcileCluster(ctx.core, ctx.principal, request));
  });
