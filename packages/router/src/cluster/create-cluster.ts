import { createCluster as contract } from "@millrace/contract";
import { createCluster, previewCreate } from "@millrace/core";
import { presentPreview } from "../plan/present-plan.ts";
import { procedure } from "../procedure.ts";
import { presentCluster } from "./present-cluster.ts";
import { networkRequest, walRequest } from "./read-aws-spec.ts";

export const createClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = {
      name: input.name,
      region: input.region,
      size: input.size,
      environmentId: input.environment_id,
      labels: input.labels,
      deletionProtection: input.deletion_protection,
      plaintextListener: input.plaintext_listener,
      brokers: input.brokers,
      zones: input.zones,
      wal: input.wal && walRequest(input.wal),
      network: input.network && networkRequest(input.network),
      storage: input.storage && { kmsKeyArn: input.storage.kms_key_arn },
      requireApproval: input.require_approval,
    };
    if (input.validate_only) {
      return presentPreview(await previewCreate(ctx.core, ctx.principal, request, ctx.signal));
    }
    const { cluster, operation } = await createCluster(ctx.core, ctx.principal, request);
    const operationId = operation.id;
    return { ...presentCluster({ cluster, operationId }), operation_id: operationId };
  });
