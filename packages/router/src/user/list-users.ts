import { listUsers as contract } from "@millrace/contract";
import { listUsers } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentUser } from "./present-user.ts";

export const listUsersProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listUsers(ctx.core, ctx.principal, request), presentUser);
  });
