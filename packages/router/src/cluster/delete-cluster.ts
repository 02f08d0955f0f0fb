import { deleteCluster as contract } from "@millrace/contract";
import { deleteCluster } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { procedure } from "../procedure.ts";

export const deleteClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentOperation(
      await deleteCluster(ctx.core, ctx.principal, {
        clusterId: input.cluster_id,
        ifMatch: input.if_match,
      }),
    ),
  );
