import { produceRecords as contract } from "@millrace/contract";
import { produceRecords } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const produceRecordsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(({ ctx, input }) => {
    const { cluster_id: clusterId, topic_name: topicName, ...request } = input;
    return produceRecords(ctx.core, ctx.principal, { clusterId, topicName, request });
  });
