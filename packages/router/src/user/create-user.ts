import { createUser as contract } from "@millrace/contract";
import { createUser } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentUser } from "./present-user.ts";

export const createUserProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, name, password: chosen } = input;
    const request = { clusterId, name, password: chosen };
    const { user, password } = await createUser(ctx.core, ctx.principal, request);
    return { ...presentUser(user), password: password ?? null };
  });
