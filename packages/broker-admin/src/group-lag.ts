import type { ConsumerGroup, PartitionLag } from "@millrace/domain";
import type { Admin, ListConsumerGroupOffsetsGroup } from "@platformatic/kafka";

/** Kafka's "latest" in ListOffsets. */
const LATEST = -1n;

/** Groups in order of their ids. Partitions of topics that no longer exist are left out. */
export async function describeGroups(admin: Admin): Promise<ConsumerGroup[]> {
  const groups = await admin.listGroups({});
  const ids = [...groups.keys()].sort();
  if (ids.length === 0) return [];
  const [described, committed] = await Promise.all([
    admin.describeGroups({ groups: ids }),
    admin.listConsumerGroupOffsets({ groups: ids }),
  ]);
  const ends = await endOffsets(admin, committed);
  const committedById = new Map(committed.map((group) => [group.groupId, group]));
  return ids.map((groupId) => {
    const group = described.get(groupId) ?? groups.get(groupId);
    return {
      groupId,
      state: group?.state ?? "Unknown",
      protocolType: group?.protocolType ?? "",
      members: described.get(groupId)?.members.size ?? 0,
      partitions: lagOf(committedById.get(groupId), ends),
    };
  });
}

type EndOffsets = ReadonlyMap<string, ReadonlyMap<number, bigint>>;

async function endOffsets(
  admin: Admin,
  committed: readonly ListConsumerGroupOffsetsGroup[],
): Promise<EndOffsets> {
  const wanted = new Map<string, Set<number>>();
  for (const topic of committed.flatMap((group) => group.topics)) {
    const partitions = wanted.get(topic.name) ?? new Set();
    for (const partition of topic.partitions) partitions.add(partition.partitionIndex);
    wanted.set(topic.name, partitions);
  }
  const existing = new Set(await admin.listTopics({ includeInternals: true }));
  const topics = [...wanted]
    .filter(([name]) => existing.has(name))
    .map(([name, partitions]) => ({
      name,
      partitions: [...partitions].map((partitionIndex) => ({ partitionIndex, timestamp: LATEST })),
    }));
  if (topics.length === 0) return new Map();
  const listed = await admin.listOffsets({ topics });
  return new Map(
    listed.map((topic) => [
      topic.name,
      new Map(topic.partitions.map((each) => [each.partitionIndex, each.offset])),
    ]),
  );
}

function lagOf(group: ListConsumerGroupOffsetsGroup | undefined, ends: EndOffsets): PartitionLag[] {
  return (group?.topics ?? [])
    .flatMap((topic) =>
      topic.partitions.flatMap(({ partitionIndex, committedOffset }) => {
        const endOffset = ends.get(topic.name)?.get(partitionIndex);
        // -1 says that the group never committed this partition.
        if (endOffset === undefined || committedOffset < 0n) return [];
        // A commit can be newer than the end offset that was read before it.
        const lag = endOffset > committedOffset ? endOffset - committedOffset : 0n;
        return [{ topic: topic.name, partition: partitionIndex, committedOffset, endOffset, lag }];
      }),
    )
    .sort((a, b) => a.topic.localeCompare(b.topic, "en") || a.partition - b.partition);
}
