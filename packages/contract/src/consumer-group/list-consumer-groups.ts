import { z } from "zod";
import { defineContract } from "../contract.ts";
import { int64, pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";

export const ConsumerGroup = z
  .object({
    group_id: z.string(),
    state: z.string().meta({ description: "Kafka's group state, such as Stable or Empty" }),
    protocol_type: z.string(),
    members: z.int(),
    total_lag: int64.meta({ description: "Sum of the partitions' known lag, in records" }),
    partitions: z.array(
      z.object({
        topic: z.string(),
        partition: z.int(),
        committed_offset: int64.nullable().meta({
          description: "Null where a member is assigned the partition and nothing is committed yet",
        }),
        end_offset: int64.meta({ description: "-1 where the partition is offline" }),
        lag: int64.meta({
          description:
            "Records between the committed offset and the end. Without a commit it counts from the start of the log, as auto.offset.reset=earliest reads. -1 where the partition is offline: its lag is unknown",
        }),
      }),
    ),
  })
  .meta({ id: "ConsumerGroup" });
export type ConsumerGroup = z.infer<typeof ConsumerGroup>;

export const listConsumerGroups = defineContract({
  name: "consumerGroup.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/consumer-groups",
  summary: "List consumer groups",
  description: "With members, committed offsets and lag per partition.",
  tag: "Consumer groups",
  permission: "group:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: pageQuery,
  response: pageOf(ConsumerGroup).meta({ id: "ConsumerGroupPage" }),
});
