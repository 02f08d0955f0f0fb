/** How far a consumer group is in a partition that it has committed, or that a member is assigned. */
export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  /** The member that is assigned the partition. */
  readonly memberId: string | undefined;
  /** Undefined where a member is assigned the partition and the group has not committed it yet. */
  readonly committedOffset: bigint | undefined;
  /** The first offset that can be read. Undefined where the partition is offline, as end and lag. */
  readonly startOffset: bigint | undefined;
  /** One past the last offset that can be read. */
  readonly endOffset: bigint | undefined;
  /**
   * Records between the committed offset and the end, never negative. Without a commit it counts
   * from the start of the log, as `auto.offset.reset=earliest` reads: that setting stays in the
   * consumer, so a group that starts at the latest record shows too much until its first commit.
   */
  readonly lag: bigint | undefined;
  /**
   * Whether the commit lies outside of the log, so that the group goes on where `auto.offset.reset` says.
   * Before the start, the lag counts from the start; behind the end it is 0.
   */
  readonly outOfRange: boolean;
}

/** A group in sum. */
export interface ConsumerGroupSummary {
  readonly groupId: string;
  /** Kafka's own state names: `Stable`, `Empty`, `PreparingRebalance`, … */
  readonly state: string;
  readonly protocolType: string;
  /** A group without members is idle: its lag only grows. */
  readonly members: number;
  /** Sum over the partitions. Offline ones, whose lag is unknown, do not count. */
  readonly lag: bigint;
  readonly partitionCount: number;
  readonly offlinePartitionCount: number;
  /** Stands still as long as the group commits nothing. */
  readonly committedOffsetSum: bigint;
}

export interface ConsumerGroup extends ConsumerGroupSummary {
  readonly partitions: readonly PartitionLag[];
}

export interface ConsumerGroupMember {
  readonly memberId: string;
  /** `group.instance.id` of a static member. */
  readonly instanceId: string | undefined;
  readonly clientId: string;
  readonly host: string;
  readonly partitionCount: number;
}

export interface DescribedConsumerGroup extends ConsumerGroup {
  /** Empty unless the group is stable. */
  readonly assignor: string;
  readonly groupMembers: readonly ConsumerGroupMember[];
}
