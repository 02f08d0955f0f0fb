import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ConsumerGroupDetails, groupId } from "./consumer-group.ts";

export const getConsumerGroup = defineContract({
  name: "consumerGroup.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/consumer-groups/{group_id}",
  summary: "Get a consumer group",
  description: "With its members, and offsets and lag of each partition.",
  tag: "Consumer groups",
  permission: "group:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), group_id: groupId },
  response: ConsumerGroupDetails,
});
