import {
  listConsumerGroups as contract,
  type ConsumerGroup as GroupShape,
} from "@millrace/contract";
import { listConsumerGroups } from "@millrace/core";
import { type ConsumerGroup, totalLag } from "@millrace/domain";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";

/** Kafka's own value for an offset that is not known. */
const UNKNOWN = -1n;

export const listConsumerGroupsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listConsumerGroups(ctx.core, ctx.principal, request), presentGroup);
  });

function presentGroup(group: ConsumerGroup): GroupShape {
  return {
    group_id: group.groupId,
    state: group.state,
    protocol_type: group.protocolType,
    members: group.members,
    total_lag: totalLag(group).toString(),
    partitions: group.partitions.map((partition) => ({
      topic: partition.topic,
      partition: partition.partition,
      committed_offset: partition.committedOffset?.toString() ?? null,
      end_offset: (partition.endOffset ?? UNKNOWN).toString(),
      lag: (partition.lag ?? UNKNOWN).toString(),
    })),
  };
}
