import type { ConsumerGroup, PartitionLag } from "@millrace/domain";
import type { Group, ListConsumerGroupOffsetsGroup } from "@platformatic/kafka";
import { type OfflineTolerantAdmin, partitionKey } from "./offline-partitions.ts";

/** Kafka's "latest" and "earliest" in ListOffsets. */
const LATEST = -1n;
const EARLIEST = -2n;

/** What is read of a Kafka client here. */
export type GroupAdmin = Pick<
  OfflineTolerantAdmin,
  "listGroups" | "describeGroups" | "listConsumerGroupOffsets" | "topicListing" | "listOffsets"
>;

/** Which of all groups are described. */
export type PickGroups = (ids: readonly string[]) => readonly string[];

/** Groups in order of their ids. Partitions of topics that no longer exist are left out. */
export async function describeGroups(
  admin: GroupAdmin,
  pick: PickGroups = (ids) => ids,
): Promise<ConsumerGroup[]> {
  const groups = await admin.listGroups({});
  const ids = [...pick([...groups.keys()].sort())];
  if (ids.length === 0) return [];
  const [described, committed] = await Promise.all([
    admin.describeGroups({ groups: ids }),
    admin.listConsumerGroupOffsets({ groups: ids }),
  ]);
  const committedById = new Map(committed.map((group) => [group.groupId, group]));
  const positions = new Map(
    ids.map((id) => [id, positionsOf(committedById.get(id), described.get(id))]),
  );
  const bounds = await boundsOf(admin, [...positions.values()].flat());
  return ids.map((groupId) => {
    const group = described.get(groupId) ?? groups.get(groupId);
    return {
      groupId,
      state: group?.state ?? "Unknown",
      protocolType: group?.protocolType ?? "",
      members: described.get(groupId)?.members.size ?? 0,
      partitions: lagOf(positions.get(groupId) ?? [], bounds),
    };
  });
}

/** A partition that a group has committed, or that one of its members is assigned. */
type Position = Pick<PartitionLag, "topic" | "partition" | "committedOffset">;

function positionsOf(
  committed: ListConsumerGroupOffsetsGroup | undefined,
  group: Group | undefined,
): Position[] {
  const assigned = [...(group?.members.values() ?? [])].flatMap((member) =>
    [...(member.assignments?.values() ?? [])].flatMap(({ topic, partitions }) =>
      partitions.map((partition) => ({ topic, partition, committedOffset: undefined })),
    ),
  );
  const known = (committed?.topics ?? []).flatMap(({ name, partitions }) =>
    partitions
      // -1 says that the group never committed this partition.
      .filter(({ committedOffset }) => committedOffset >= 0n)
      .map(({ partitionIndex, committedOffset }) => ({
        topic: name,
        partition: partitionIndex,
        committedOffset,
      })),
  );
  // What is committed comes last, so it replaces the same partition of an assignment.
  return [...new Map([...assigned, ...known].map((each) => [partitionKey(each), each])).values()];
}

type PartitionName = Pick<Position, "topic" | "partition">;

interface Bounds {
  readonly ends: ReadonlyMap<string, bigint>;
  /** Only of partitions that some group has not committed. */
  readonly starts: ReadonlyMap<string, bigint>;
  /** The broker refuses ListOffsets for these, and the client then fails the whole answer. */
  readonly offline: ReadonlySet<string>;
}

async function boundsOf(admin: GroupAdmin, positions: readonly Position[]): Promise<Bounds> {
  const { names, offline } = await admin.topicListing();
  // The client knows no offsets of internal topics: asked for them, it throws where nobody can catch it.
  const existing = new Set(names.filter((name) => !name.startsWith("__")));
  const wanted = positions.filter(
    (position) => existing.has(position.topic) && !offline.has(partitionKey(position)),
  );
  const [ends, starts] = await Promise.all([
    offsetsAt(admin, wanted, LATEST),
    offsetsAt(
      admin,
      wanted.filter(({ committedOffset }) => committedOffset === undefined),
      EARLIEST,
    ),
  ]);
  return { ends, starts, offline };
}

async function offsetsAt(
  admin: GroupAdmin,
  partitions: readonly PartitionName[],
  timestamp: bigint,
): Promise<ReadonlyMap<string, bigint>> {
  const byTopic = new Map<string, Set<number>>();
  for (const { topic, partition } of partitions) {
    byTopic.set(topic, (byTopic.get(topic) ?? new Set()).add(partition));
  }
  if (byTopic.size === 0) return new Map();
  const topics = [...byTopic].map(([name, indexes]) => ({
    name,
    partitions: [...indexes].map((partitionIndex) => ({ partitionIndex, timestamp })),
  }));
  const listed = await admin.listOffsets({ topics });
  return new Map(
    listed.flatMap(({ name, partitions: each }) =>
      each.map(({ partitionIndex, offset }) => [
        partitionKey({ topic: name, partition: partitionIndex }),
        offset,
      ]),
    ),
  );
}

function lagOf(positions: readonly Position[], { ends, starts, offline }: Bounds): PartitionLag[] {
  return positions
    .flatMap((position): PartitionLag[] => {
      if (offline.has(partitionKey(position))) {
        return [{ ...position, endOffset: undefined, lag: undefined }];
      }
      const endOffset = ends.get(partitionKey(position));
      if (endOffset === undefined) return [];
      const from = position.committedOffset ?? starts.get(partitionKey(position)) ?? 0n;
      // A commit can be newer than the end offset that was read before it.
      const lag = endOffset > from ? endOffset - from : 0n;
      return [{ ...position, endOffset, lag }];
    })
    .sort((a, b) => a.topic.localeCompare(b.topic, "en") || a.partition - b.partition);
}
