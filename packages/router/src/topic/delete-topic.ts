import { deleteTopic as contract } from "@millrace/contract";
import { deleteTopic } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const deleteTopicProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, topicName: input.topic_name };
    await deleteTopic(ctx.core, ctx.principal, request);
    return null;
  });
