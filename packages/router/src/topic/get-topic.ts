import { getTopic as contract } from "@millrace/contract";
import { getTopic } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTopic } from "./present-topic.ts";

export const getTopicProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, topicName: input.topic_name };
    return presentTopic(await getTopic(ctx.core, ctx.principal, request));
  });
