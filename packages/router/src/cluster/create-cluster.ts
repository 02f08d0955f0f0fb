import { createCluster as contract } from "@millrace/contract";
import { createCluster } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentCluster } from "./present-cluster.ts";

export const createClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster, operation } = await createCluster(ctx.core, ctx.principal, {
      name: input.name,
      region: input.region,
      size: input.size,
      environmentId: input.environment_id,
      labels: input.labels,
    });
    const operationId = operation.id;
    return { ...presentCluster({ cluster, operationId }), operation_id: operationId };
  });
