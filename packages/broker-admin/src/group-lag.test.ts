import { totalLag } from "@millrace/domain";
import { expect, test } from "vitest";
import { describeGroups, type GroupAdmin } from "./group-lag.ts";

interface FakeGroup {
  readonly assigned: readonly number[];
  readonly committed: Readonly<Record<number, bigint>>;
}

/** A broker with one topic, `t`, of which every partition holds the offsets 100 to 1,000. */
function adminWith(
  groups: Readonly<Record<string, FakeGroup>>,
  offline: readonly string[] = [],
): GroupAdmin {
  const bases = Object.keys(groups).map(
    (id) => [id, { id, state: "Stable", protocolType: "consumer" }] as const,
  );
  const admin = {
    listGroups: async () => new Map(bases),
    describeGroups: async () =>
      new Map(
        bases.map(([id, base]) => {
          const topic = { topic: "t", partitions: groups[id]?.assigned ?? [] };
          const member = { id: "m", assignments: new Map([["t", topic]]) };
          return [id, { ...base, members: new Map([["m", member]]) }];
        }),
      ),
    listConsumerGroupOffsets: async () =>
      Object.entries(groups).map(([groupId, { committed }]) => ({
        groupId,
        topics: [
          {
            name: "t",
            partitions: Object.entries(committed).map(([index, committedOffset]) => ({
              partitionIndex: Number(index),
              committedOffset,
            })),
          },
        ],
      })),
    topicListing: async () => ({ names: ["t"], offline: new Set(offline) }),
    listOffsets: async ({ topics }: Parameters<GroupAdmin["listOffsets"]>[0]) =>
      topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionIndex, timestamp }) => {
          if (offline.includes(`${name}/${partitionIndex}`)) throw new Error("KAFKA_STORAGE_ERROR");
          return { partitionIndex, offset: timestamp === -2n ? 100n : 1_000n };
        }),
      })),
  };
  return admin as unknown as GroupAdmin;
}

test("an assigned partition that was never committed counts from the start of its log", async () => {
  const [group] = await describeGroups(
    adminWith({ readers: { assigned: [0, 1, 2], committed: { 0: 400n, 1: 1_000n } } }),
  );
  expect(group?.partitions).toEqual([
    { topic: "t", partition: 0, committedOffset: 400n, endOffset: 1_000n, lag: 600n },
    { topic: "t", partition: 1, committedOffset: 1_000n, endOffset: 1_000n, lag: 0n },
    { topic: "t", partition: 2, committedOffset: undefined, endOffset: 1_000n, lag: 900n },
  ]);
  expect(group && totalLag(group)).toBe(1_500n);
});

test("an assigned partition whose commit is -1 counts once, as uncommitted", async () => {
  const [group] = await describeGroups(
    adminWith({ readers: { assigned: [0], committed: { 0: -1n } } }),
  );
  expect(group?.partitions).toMatchObject([{ partition: 0, lag: 900n }]);
});

test("a committed partition counts though no member is assigned it", async () => {
  const [group] = await describeGroups(
    adminWith({ readers: { assigned: [], committed: { 4: 990n } } }),
  );
  expect(group?.partitions).toMatchObject([{ partition: 4, committedOffset: 990n, lag: 10n }]);
});

test("an offline partition is listed without a lag, and the others keep theirs", async () => {
  const [group] = await describeGroups(
    adminWith({ readers: { assigned: [0, 1, 2], committed: { 0: 400n, 1: 400n } } }, [
      "t/1",
      "t/2",
    ]),
  );
  expect(group?.partitions).toEqual([
    { topic: "t", partition: 0, committedOffset: 400n, endOffset: 1_000n, lag: 600n },
    { topic: "t", partition: 1, committedOffset: 400n, endOffset: undefined, lag: undefined },
    { topic: "t", partition: 2, committedOffset: undefined, endOffset: undefined, lag: undefined },
  ]);
  expect(group && totalLag(group)).toBe(600n);
});
