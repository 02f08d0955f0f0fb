import { getUser as contract } from "@millrace/contract";
import { getUser } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentUser } from "./present-user.ts";

export const getUserProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, userName: input.user_name };
    return presentUser(await getUser(ctx.core, ctx.principal, request));
  });
