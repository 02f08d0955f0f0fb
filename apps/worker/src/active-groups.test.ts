import type { ConsumerGroupSummary } from "@millrace/domain";
import { expect, test } from "vitest";
import { ActiveGroups, type ReadGroup } from "./active-groups.ts";

function group(
  groupId: string,
  members: number,
  committedOffsetSum: bigint,
  lag = 1n,
): ConsumerGroupSummary {
  const counts = { members, partitionCount: 1, offlinePartitionCount: 0 };
  return { groupId, state: "", protocolType: "consumer", ...counts, lag, committedOffsetSum };
}

function ids(read: readonly ReadGroup[], idle = false): string[] {
  return read.filter((each) => each.idle === idle).map(({ group }) => group.groupId);
}

test("a group that stopped is read as idle for as long as it is behind", () => {
  const active = new ActiveGroups();
  active.read([group("g", 1, 5n)], 0);
  for (const nowMs of [10_000, 100_000, 86_400_000]) {
    const read = active.read([group("g", 0, 5n)], nowMs);
    expect([ids(read), ids(read, true)]).toEqual([[], ["g"]]);
  }
  expect(active.read([group("g", 0, 5n, 0n)], 86_410_000)).toEqual([]);
  expect(ids(active.read([group("g", 1, 5n)], 86_420_000))).toEqual(["g"]);
});

test("of many idle groups, those that are furthest behind are read, and every active one", () => {
  const idle = Array.from({ length: 300 }, (_, lag) => group(`idle-${lag}`, 0, 5n, BigInt(lag)));
  const busy = Array.from({ length: 300 }, (_, index) => group(`busy-${index}`, 1, 5n, 0n));
  const read = new ActiveGroups().read([...idle, ...busy], 0);
  expect(ids(read)).toHaveLength(300);
  const behind = ids(read, true);
  expect([behind.length, behind[0], behind.at(-1)]).toEqual([200, "idle-299", "idle-100"]);
});

test("an inactive group adds nothing to the cluster's lag", () => {
  const active = new ActiveGroups();
  const groups = [group("read", 2, 5n), group("idle", 0, 5n)];
  expect(ids(active.read(groups, 0))).toEqual(["read"]);
  expect(ids(active.read(groups, 4_000))).toEqual(["read"]);
});

test("a group without members counts while its commits move, and for a while after", () => {
  const active = new ActiveGroups();
  active.read([group("manual", 0, 5n)], 0);
  expect(ids(active.read([group("manual", 0, 6n)], 4_000))).toEqual(["manual"]);
  expect(ids(active.read([group("manual", 0, 6n)], 60_000))).toEqual(["manual"]);
  expect(ids(active.read([group("manual", 0, 6n)], 120_000))).toEqual([]);
});

test("a group that appears after the first reading has just committed", () => {
  const active = new ActiveGroups();
  active.read([], 0);
  expect(ids(active.read([group("new", 0, 5n)], 4_000))).toEqual(["new"]);
});
