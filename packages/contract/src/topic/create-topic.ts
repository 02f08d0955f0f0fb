import {
  isTopicName,
  TOPIC_CONFIGS_MAX,
  TOPIC_NAME_MAX,
  TOPIC_PARTITIONS_MAX,
} from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Topic } from "./topic.ts";

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
    name: z.string().min(1).max(TOPIC_NAME_MAX).refine(isTopicName, {
      error: "letters, digits, dot, underscore and hyphen; not beginning with two underscores",
    }),
    partitions: z.int().min(1).max(TOPIC_PARTITIONS_MAX).default(1),
    configs: z
      .record(z.string().min(1).max(128), z.string().max(4096))
      .refine((value) => Object.keys(value).length <= TOPIC_CONFIGS_MAX, {
        error: `at most ${TOPIC_CONFIGS_MAX} entries`,
      })
      .default({}),
  },
  response: Topic,
});
