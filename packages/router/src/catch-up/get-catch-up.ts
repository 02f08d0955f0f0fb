import { getCatchUp as contract } from "@millrace/contract";
import { getCatchUp } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const getCatchUpProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx, input }) => getCatchUp(ctx.core, ctx.principal, input.cluster_id));
