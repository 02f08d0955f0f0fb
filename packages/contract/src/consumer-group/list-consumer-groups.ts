import { z } from "zod";
import { defineContract } from "../contract.ts";
import { int64, pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";

export const ConsumerGroup = z
  .object({
    group_id: z.string(),
    state: z.string(),
    protocol_type: z.string(),
    members: z.int(),
    total_lag: int64,
    partitions: z.array(
      z.object({
        topic: z.string(),
        partition: z.int(),
        committed_offset: int64,
        end_offset: int64,
        lag: int64,
      }),
    ),
  })
  .meta({ id: "ConsumerGroup" });
export type ConsumerGroup = z.infer<typeof ConsumerGroup>;

export const listConsumerGroups = defineContract({
  name: "consumerGroup.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/consumer-groups",
  summary: "List consumer groups with their lag",
  tag: "Consumer groups",
  permission: "group:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: pageQuery,
  response: pageOf(ConsumerGroup).meta({ id: "ConsumerGroupPage" }),
});
