import { getDrift as contract } from "@millrace/contract";
import { getDrift } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentDrift } from "./present-drift.ts";

export const getDriftProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentDrift(await getDrift(ctx.core, ctx.principal, input.cluster_id)),
  );
