import { getCluster as contract } from "@millrace/contract";
import { getCluster } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentCluster } from "./present-cluster.ts";

export const getClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentCluster(await getCluster(ctx.core, ctx.principal, input.cluster_id)),
  );
