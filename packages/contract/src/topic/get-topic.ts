import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Topic } from "./topic.ts";

export const getTopic = defineContract({
  name: "topic.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}",
  summary: "Get a topic",
  description: "With all its settings.",
  tag: "Topics",
  permission: "topic:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), topic_name: z.string().min(1).max(249) },
  response: Topic,
});
