import { getConsumerGroup as contract } from "@millrace/contract";
import { getConsumerGroup } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentGroup, presentPartition } from "./present-group.ts";

export const getConsumerGroupProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, groupId: input.group_id };
    const group = await getConsumerGroup(ctx.core, ctx.principal, request);
    return {
      ...presentGroup(group),
      assignor: group.assignor,
      group_members: group.groupMembers.map((member) => ({
        member_id: member.memberId,
        instance_id: member.instanceId ?? null,
        client_id: member.clientId,
        host: member.host,
        partition_count: member.partitionCount,
      })),
      partitions: group.partitions.map((partition) => ({
        ...presentPartition(partition),
        member_id: partition.memberId ?? null,
      })),
    };
  });
