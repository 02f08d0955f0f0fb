import { TOPIC_PARTITIONS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId, validateOnly } from "../field.ts";
import { boundedConfigs, configName, configValue, Topic } from "./topic.ts";

export const updateTopic = defineContract({
  name: "topic.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}",
  summary: "Update a topic",
  description: "Changes settings and adds partitions. Partitions cannot be removed.",
  tag: "Topics",
  permission: "topic:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), topic_name: z.string().min(1).max(249) },
  query: { validate_only: validateOnly },
  body: {
    partitions: z
      .int()
      .min(1)
      .max(TOPIC_PARTITIONS_MAX)
      .optional()
      .meta({ description: "New total; cannot be reduced" }),
    configs: boundedConfigs(z.record(configName, configValue.nullable()))
      .optional()
      .meta({ description: "null resets a setting to its default; absent settings stay" }),
  },
  response: Topic,
});
