/** A Kafka topic as the control plane shows it. */
export interface Topic {
  readonly name: string;
  /** The broker's topic id (a UUID), where it reports one. */
  readonly topicId: string | undefined;
  readonly partitions: number;
  readonly replicationFactor: number;
}

/** Partitions of one topic: each costs the broker two streams and some memory. */
export const TOPIC_PARTITIONS_MAX = 10_000;
/** Configuration entries in one create call: Kafka itself knows fewer topic settings than this. */
export const TOPIC_CONFIGS_MAX = 64;
