import { deleteCluster as contract } from "@millrace/contract";
import { deleteCluster, previewDelete } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { presentPreview } from "../plan/present-plan.ts";
import { procedure } from "../procedure.ts";

export const deleteClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = {
      clusterId: input.cluster_id,
      retainDays: input.retain_days,
      ifMatch: input.if_match,
    };
    if (input.validate_only) {
      return presentPreview(await previewDelete(ctx.core, ctx.principal, request, ctx.signal));
    }
    return presentOperation(await deleteCluster(ctx.core, ctx.principal, request));
  });
