import { listTopics as contract } from "@millrace/contract";
import { listTopics } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentTopic } from "./present-topic.ts";

export const listTopicsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const withConfigs = input.include === "configs";
    const request = { ...pageInput(input), clusterId: input.cluster_id, withConfigs };
    return presentPage(await listTopics(ctx.core, ctx.principal, request), presentTopic);
  });
