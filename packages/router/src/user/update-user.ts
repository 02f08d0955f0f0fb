import { updateUser as contract } from "@millrace/contract";
import { updateUser } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentUser } from "./present-user.ts";

export const updateUserProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, user_name: userName, mechanisms } = input;
    const request = { clusterId, userName, mechanisms };
    return presentUser(await updateUser(ctx.core, ctx.principal, request));
  });
