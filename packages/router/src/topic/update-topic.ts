import { updateTopic as contract } from "@millrace/contract";
import { updateTopic } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTopic } from "./present-topic.ts";

export const updateTopicProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentTopic(
      await updateTopic(ctx.core, ctx.principal, {
        clusterId: input.cluster_id,
        topicName: input.topic_name,
        partitions: input.partitions,
        configs: input.configs,
        validateOnly: input.validate_only,
      }),
    ),
  );
