import { createTopic as contract } from "@millrace/contract";
import { createTopic } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTopic } from "./present-topic.ts";

export const createTopicProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, ...topic } = input;
    return presentTopic(await createTopic(ctx.core, ctx.principal, { clusterId, ...topic }));
  });
