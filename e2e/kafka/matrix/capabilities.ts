/**
 * What a Kafka client may be able to do. A program tries one of them, which its last argument names, and ends with 0 where
 * it works. Where the client does not have the capability, it prints `n/a` and the reason. Its environment:
 * CLIENT_BOOTSTRAP, CLIENT_TOPIC, a topic of two partitions, CLIENT_GROUP, a name for a group and transactional id, and CLIENT_VERSION.
 *
 * - produce, consume: writes ten records with acks=all and reads them.
 * - idempotent produce: the same with an idempotent producer.
 * - transactions: one is committed and one aborted; a committed reader sees the first alone. With offsets of a group where
 *   the client can.
 * - classic group: two members have a partition each; after one has left, the other has both.
 * - consumer group: the same with the consumer protocol (KIP-848).
 * - share group (KIP-932): a member releases each record at its first delivery and accepts it at the second; after it has
 *   left, another member gets only what is written later. The group CLIENT_GROUP begins at the earliest offset.
 * - admin: creates, configures, grows, describes and deletes a topic; lists groups.
 * - gzip and the other codecs: writes and reads compressed records.
 */
export const CAPABILITIES = [
  "produce",
  "consume",
  "idempotent produce",
  "transactions",
  "classic group",
  "consumer group",
  "share group",
  "admin",
  "gzip",
  "snappy",
  "lz4",
  "zstd",
] as const;
export type Capability = (typeof CAPABILITIES)[number];
