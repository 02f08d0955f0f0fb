import { z } from "zod";

export const Topic = z
  .object({
    name: z.string(),
    topic_id: z.string().nullable(),
    partitions: z.int(),
    replication_factor: z.int(),
  })
  .meta({ id: "Topic" });
export type Topic = z.infer<typeof Topic>;
