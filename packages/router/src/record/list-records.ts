import { listRecords as contract } from "@millrace/contract";
import { listRecords } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const listRecordsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx, input }) => {
    const { cluster_id: clusterId, topic_name: topicName, ...query } = input;
    return listRecords(ctx.core, ctx.principal, {
      clusterId,
      topicName,
      query,
      signal: ctx.signal,
      answered: ctx.answered,
    });
  });
