/** A Kafka topic as the control plane shows it. */
export interface Topic {
  readonly name: string;
  /** The broker's topic id (a UUID), where it reports one. */
  readonly topicId: string | undefined;
  readonly partitions: number;
  readonly replicationFactor: number;
}

/** Where a topic's setting comes from: set on the topic, on its broker, or by nobody. */
export const TOPIC_CONFIG_SOURCES = ["topic", "broker", "default"] as const;
export type TopicConfigSource = (typeof TOPIC_CONFIG_SOURCES)[number];

export interface TopicConfig {
  /** As Kafka writes it; null where it keeps the value to itself. */
  readonly value: string | null;
  readonly source: TopicConfigSource;
}

/** A topic with every setting that it has, by name. */
export interface DescribedTopic extends Topic {
  readonly configs: Readonly<Record<string, TopicConfig>>;
}

/** Partitions of one topic: each costs the broker two streams and some memory. */
export const TOPIC_PARTITIONS_MAX = 10_000;
/** Configuration entries in one create call: Kafka itself knows fewer topic settings than this. */
export const TOPIC_CONFIGS_MAX = 64;
