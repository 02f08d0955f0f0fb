import { deleteUser as contract } from "@millrace/contract";
import { deleteUser } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteUserProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, userName: input.user_name };
    await deleteUser(ctx.core, ctx.principal, request);
    return null;
  });
