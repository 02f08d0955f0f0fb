import type { Topic as TopicShape } from "@millrace/contract";
import type { Topic } from "@millrace/domain";

export function presentTopic(topic: Topic): TopicShape {
  return {
    name: topic.name,
    topic_id: topic.topicId ?? null,
    partitions: topic.partitions,
    replication_factor: topic.replicationFactor,
  };
}
