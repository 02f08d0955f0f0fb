import { updateCluster as contract } from "@millrace/contract";
import {
  type ClusterPatch,
  getCluster,
  pauseCluster,
  previewUpdate,
  resumeCluster,
  updateCluster,
} from "@millrace/core";
import { type ClusterId, type Operation, validationFailed } from "@millrace/domain";
import type { z } from "zod";
import { presentPreview } from "../plan/present-plan.ts";
import { type PrincipalContext, procedure } from "../procedure.ts";
import { presentCluster } from "./present-cluster.ts";
import { walRequest } from "./read-aws-spec.ts";

type Input = z.output<typeof contract.input>;

export const updateClusterProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = {
      clusterId: input.cluster_id,
      patch: patchOf(input),
      ifMatch: input.if_match,
      requireApproval: input.require_approval,
    };
    if (input.validate_only) {
      return presentPreview(await previewUpdate(ctx.core, ctx.principal, request, ctx.signal));
    }
    if (input.paused !== undefined) {
      const { cluster } = await getCluster(ctx.core, ctx.principal, input.cluster_id);
      if (cluster.paused !== input.paused) return pauseOrResume(ctx, input, input.paused);
    }
    const { cluster, operation } = await updateCluster(ctx.core, ctx.principal, request);
    if (operation) return accepted(ctx, cluster.id, operation);
    return presentCluster(await getCluster(ctx.core, ctx.principal, cluster.id));
  });

async function pauseOrResume(ctx: PrincipalContext, input: Input, paused: boolean) {
  const { paused: _, ...others } = patchOf(input);
  if (Object.values(others).some((field) => field !== undefined)) {
    const message = "cannot be combined with other fields";
    throw validationFailed([{ pointer: "/paused", code: "not_alone", message }]);
  }
  const request = { clusterId: input.cluster_id, ifMatch: input.if_match };
  const act = paused ? pauseCluster : resumeCluster;
  return accepted(ctx, input.cluster_id, await act(ctx.core, ctx.principal, request));
}

async function accepted(ctx: PrincipalContext, clusterId: ClusterId, operation: Operation) {
  const view = await getCluster(ctx.core, ctx.principal, clusterId);
  return { ...presentCluster(view), operation_id: operation.id };
}

function patchOf(input: Input): ClusterPatch {
  return {
    name: input.name,
    labels: input.labels,
    size: input.size,
    deletionProtection: input.deletion_protection,
    plaintextListener: input.plaintext_listener,
    brokers: input.brokers,
    wal: input.wal && walRequest(input.wal),
    network: input.network && {
      access: input.network.access,
      allowedPrincipals: input.network.allowed_principals,
      allowedCidrs: input.network.allowed_cidrs,
    },
    paused: input.paused,
  };
}
