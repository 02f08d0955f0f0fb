import { getOperationPlan as contract } from "@millrace/contract";
import { getOperationPlan } from "@millrace/core";
import { presentOperationPlan } from "../plan/present-plan.ts";
import { procedure } from "../procedure.ts";

export const getOperationPlanProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentOperationPlan(await getOperationPlan(ctx.core, ctx.principal, input.operation_id)),
  );
