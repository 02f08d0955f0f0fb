import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteTopic = defineContract({
  name: "topic.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}/topics/{topic_name}",
  summary: "Delete a topic",
  description: "Deletes all its records.",
  tag: "Topics",
  permission: "topic:write",
  successStatus: 204,
  stepUp: true,
  params: { cluster_id: pathId("clu"), topic_name: z.string().min(1).max(249) },
  response: z.null(),
});
