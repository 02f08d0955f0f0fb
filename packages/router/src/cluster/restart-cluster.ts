import { restartCluster as contract } from "@millrace/contract";
import { restartCluster } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { procedure } from "../procedure.ts";

export const restartClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, if_match: ifMatch, broker_id: brokerId } = input;
    const request = { clusterId, ifMatch, brokerId };
    return presentOperation(await restartCluster(ctx.core, ctx.principal, request));
  });
