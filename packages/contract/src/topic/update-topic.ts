import { TOPIC_PARTITIONS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId, validateOnly } from "../field.ts";
import { boundedConfigs, configName, configValue, Topic } from "./topic.ts";

export const updateTopic = defineContract({
  name: "topic.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}",
  summary: "Change a topic's settings, or add partitions",
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
      .meta({ description: "Never fewer than there are" }),
    configs: boundedConfigs(z.record(configName, configValue.nullable()))
      .optional()
      .meta({ description: "null is the default again; settings that are absent stay" }),
  },
  response: Topic,
});
