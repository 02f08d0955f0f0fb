import { getTuning as contract } from "@millrace/contract";
import { getTuning } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTuning } from "./present-tuning.ts";

export const getTuningProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentTuning(await getTuning(ctx.core, ctx.principal, input.cluster_id)),
  );
