import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Topic } from "./topic.ts";

export const listTopics = defineContract({
  name: "topic.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/topics",
  summary: "List topics",
  description: "Ordered by name. Internal topics are left out.",
  tag: "Topics",
  permission: "topic:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    ...pageQuery,
    include: z
      .enum(["configs"])
      .optional()
      .meta({ description: "configs adds each topic's settings" }),
  },
  response: pageOf(Topic).meta({ id: "TopicPage" }),
});
