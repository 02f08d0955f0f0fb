import { listOperations as contract } from "@millrace/contract";
import { listOperations } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentOperation } from "./present-operation.ts";

export const listOperationsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listOperations(ctx.core, ctx.principal, request), presentOperation);
  });
