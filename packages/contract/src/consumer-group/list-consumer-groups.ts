import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { ConsumerGroup } from "./consumer-group.ts";

export const listConsumerGroups = defineContract({
  name: "consumerGroup.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/consumer-groups",
  summary: "List consumer groups",
  description:
    "With members, committed offsets and lag per partition. A page ends early with the group that brings it to 10,000 partitions.",
  tag: "Consumer groups",
  permission: "group:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: pageQuery,
  response: pageOf(ConsumerGroup).meta({ id: "ConsumerGroupPage" }),
});
