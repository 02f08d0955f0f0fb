import { listClusters as contract } from "@millrace/contract";
import { listClusters } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentCluster } from "./present-cluster.ts";

export const listClustersProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), environmentId: input.environment_id };
    return presentPage(await listClusters(ctx.core, ctx.principal, request), presentCluster);
  });
