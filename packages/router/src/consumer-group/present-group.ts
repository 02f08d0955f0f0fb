import type { ConsumerGroup as GroupShape } from "@millrace/contract";
import type { ConsumerGroup, PartitionLag } from "@millrace/domain";

/** Kafka's own value for an offset that is not known. */
const UNKNOWN = -1n;

/** Such a group commits no offsets: the broker's figure would be 0. */
const SHARE = "share";

export function presentGroup(group: ConsumerGroup): GroupShape {
  return {
    group_id: group.groupId,
    state: group.state,
    protocol_type: group.protocolType,
    members: group.members,
    idle: group.members === 0,
    total_lag: (group.protocolType === SHARE ? UNKNOWN : group.lag).toString(),
    partitions: group.partitions.map(presentPartition),
  };
}

export function presentPartition(partition: PartitionLag): GroupShape["partitions"][number] {
  return {
    topic: partition.topic,
    partition: partition.partition,
    committed_offset: partition.committedOffset?.toString() ?? null,
    start_offset: (partition.startOffset ?? UNKNOWN).toString(),
    end_offset: (partition.endOffset ?? UNKNOWN).toString(),
    lag: (partition.lag ?? UNKNOWN).toString(),
    uncommitted: partition.committedOffset === undefined,
    out_of_range: partition.outOfRange,
  };
}
