import { rotateUser as contract } from "@millrace/contract";
import { rotateUser } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentUser } from "./present-user.ts";

export const rotateUserProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { user, password } = await rotateUser(ctx.core, ctx.principal, {
      clusterId: input.cluster_id,
      userName: input.user_name,
      mechanism: input.mechanism,
      password: input.password,
    });
    return { ...presentUser(user), password: password ?? null };
  });
