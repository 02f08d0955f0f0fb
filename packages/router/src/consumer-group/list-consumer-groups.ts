import { listConsumerGroups as contract } from "@millrace/contract";
import { listConsumerGroups } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentGroup } from "./present-group.ts";

export const listConsumerGroupsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listConsumerGroups(ctx.core, ctx.principal, request), presentGroup);
  });
