import { TOPIC_PARTITIONS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { boundedConfigs, configName, configValue, Topic, topicName } from "./topic.ts";

export const createTopic = defineContract({
  name: "topic.create",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/topics",
  summary: "Create a topic",
  tag: "Topics",
  permission: "topic:write",
  successStatus: 201,
  params: { cluster_id: pathId("clu") },
  body: {
    name: topicName,
    partitions: z.int().min(1).max(TOPIC_PARTITIONS_MAX).default(1),
    configs: boundedConfigs(z.record(configName, configValue.nullable()))
      .default({})
      .meta({ description: "null is the default, as if absent" }),
  },
  response: Topic,
});
