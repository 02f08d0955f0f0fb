import { revertTuningChange as contract } from "@millrace/contract";
import { revertTuningChange } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTuning } from "./present-tuning.ts";

export const revertTuningChangeProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentTuning(
      await revertTuningChange(ctx.core, ctx.principal, {
        clusterId: input.cluster_id,
        changeId: input.change_id,
      }),
    ),
  );
