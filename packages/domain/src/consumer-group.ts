export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  /** Undefined where a member is assigned the partition and the group has not committed it yet. */
  readonly committedOffset: bigint | undefined;
  /** Undefined where the partition is offline. */
  readonly endOffset: bigint | undefined;
  /**
   * Records between the committed offset and the end, never negative. Without a commit it counts
   * from the start of the log, as `auto.offset.reset=earliest` reads: that setting stays in the
   * consumer, so a group that starts at the latest record shows too much until its first commit.
   * Undefined where the partition is offline.
   */
  readonly lag: bigint | undefined;
}

export interface ConsumerGroup {
  readonly groupId: string;
  /** Kafka's own state names: `Stable`, `Empty`, `PreparingRebalance`, … */
  readonly state: string;
  readonly protocolType: string;
  readonly members: number;
  readonly partitions: readonly PartitionLag[];
}

/** Partitions whose lag is unknown do not count. */
export function totalLag(group: Pick<ConsumerGroup, "partitions">): bigint {
  return group.partitions.reduce((sum, partition) => sum + (partition.lag ?? 0n), 0n);
}
