import { acceptDrift as contract } from "@millrace/contract";
import { acceptDrift, viewDrift } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentDrift } from "./present-drift.ts";

export const acceptDriftProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, digest: input.digest };
    const cluster = await acceptDrift(ctx.core, ctx.principal, request);
    return presentDrift(await viewDrift(ctx.core, cluster));
  });
