import {
  isTopicName,
  TOPIC_CONFIG_SOURCES,
  TOPIC_CONFIGS_MAX,
  TOPIC_NAME_MAX,
} from "@millrace/domain";
import { z } from "zod";

/** A name that is too long or empty is told that alone: its letters may be right. */
export const topicName = z
  .string()
  .min(1, { abort: true })
  .max(TOPIC_NAME_MAX, { abort: true })
  .refine(isTopicName, {
    error: ({ input }) =>
      input === "." || input === ".."
        ? 'must not be "." or ".."'
        : "must be letters, digits, dots, underscores and hyphens, and not start with two underscores",
  });

export const configName = z.string().min(1).max(128);
export const configValue = z.string().max(4096);

export function boundedConfigs<T extends Record<string, unknown>>(schema: z.ZodType<T>) {
  return schema.refine((value) => Object.keys(value).length <= TOPIC_CONFIGS_MAX, {
    error: `must have at most ${TOPIC_CONFIGS_MAX} entries`,
  });
}

export const TopicConfig = z
  .object({
    value: z.string().nullable().meta({ description: "Numbers are decimal strings" }),
    source: z
      .enum(TOPIC_CONFIG_SOURCES)
      .meta({ description: "Set on the topic, set on the broker, or the default" }),
  })
  .meta({ id: "TopicConfig" });
export type TopicConfig = z.infer<typeof TopicConfig>;

export const Topic = z
  .object({
    name: z.string(),
    topic_id: z.string().nullable(),
    partitions: z.int(),
    replication_factor: z.int(),
    configs: z
      .record(z.string(), TopicConfig)
      .nullable()
      .meta({ description: "By name; null in a list without include=configs" }),
  })
  .meta({ id: "Topic" });
export type Topic = z.infer<typeof Topic>;
