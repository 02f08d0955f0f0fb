export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly committedOffset: bigint;
  readonly endOffset: bigint;
  /** Records between the committed offset and the end, never negative. */
  readonly lag: bigint;
}

export interface ConsumerGroup {
  readonly groupId: string;
  /** Kafka's own state names: `Stable`, `Empty`, `PreparingRebalance`, … */
  readonly state: string;
  readonly protocolType: string;
  readonly members: number;
  readonly partitions: readonly PartitionLag[];
}

export function totalLag(group: Pick<ConsumerGroup, "partitions">): bigint {
  return group.partitions.reduce((sum, partition) => sum + partition.lag, 0n);
}
