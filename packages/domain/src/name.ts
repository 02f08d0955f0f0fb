/** 63 characters: a cluster name becomes a DNS label of the cluster's address. */
export const CLUSTER_NAME_MAX = 63;
/** Lower-case letters, digits and inner hyphens; begins with a letter (RFC 1035 label). */
export const CLUSTER_NAME_PATTERN = /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Kafka's own limit: the name becomes a folder name with a partition suffix. */
export const TOPIC_NAME_MAX = 249;
const TOPIC_NAME_PATTERN = /^[a-zA-Z0-9._-]{1,249}$/;

/** Names shown to people (API keys, environments). */
export const LABEL_MAX = 100;
/**
 * Text that people write: no control characters and no halves of surrogate pairs. PostgreSQL stores
 * neither U+0000 nor, in JSON, a lone surrogate.
 */
export const PLAIN_TEXT_PATTERN = /^[^\p{Cc}\p{Cs}]*$/u;

export function isClusterName(name: string): boolean {
  return CLUSTER_NAME_PATTERN.test(name);
}

/** Kafka's rule: legal characters, not `.` or `..`, and not one of the broker's internal topics. */
export function isTopicName(name: string): boolean {
  return isKafkaTopicName(name) && !isInternalTopic(name);
}

/** Kafka's rule for any topic, an internal one included. */
export function isKafkaTopicName(name: string): boolean {
  return TOPIC_NAME_PATTERN.test(name) && name !== "." && name !== "..";
}

/** Topics in which a broker keeps its own state. Tenants can read their records and change nothing. */
export function isInternalTopic(name: string): boolean {
  return name.startsWith("__");
}
