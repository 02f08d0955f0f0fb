import type { Topic as TopicShape } from "@millrace/contract";
import type { ListedTopic } from "@millrace/core";

export function presentTopic(topic: ListedTopic): TopicShape {
  return {
    name: topic.name,
    topic_id: topic.topicId ?? null,
    partitions: topic.partitions,
    replication_factor: topic.replicationFactor,
    configs: "configs" in topic ? { ...topic.configs } : null,
  };
}
