import { recoverCluster as contract } from "@millrace/contract";
import { previewRecover, recoverCluster } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { presentPreview } from "../plan/present-plan.ts";
import { procedure } from "../procedure.ts";

export const recoverClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, ifMatch: input.if_match };
    if (input.validate_only) {
      return presentPreview(await previewRecover(ctx.core, ctx.principal, request, ctx.signal));
    }
    return presentOperation(await recoverCluster(ctx.core, ctx.principal, request));
  });
