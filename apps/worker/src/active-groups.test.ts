import type { ConsumerGroupSummary } from "@millrace/domain";
import { expect, test } from "vitest";
import { ActiveGroups } from "./active-groups.ts";

function group(groupId: string, members: number, committedOffsetSum: bigint): ConsumerGroupSummary {
  const counts = { members, partitionCount: 1, offlinePartitionCount: 0 };
  return { groupId, state: "", protocolType: "consumer", ...counts, lag: 1n, committedOffsetSum };
}

function ids(groups: readonly ConsumerGroupSummary[]): string[] {
  return groups.map(({ groupId }) => groupId);
}

test("an inactive group adds nothing to the cluster's lag", () => {
  const active = new ActiveGroups();
  const groups = [group("read", 2, 5n), group("idle", 0, 5n)];
  expect(ids(active.filter(groups, 0))).toEqual(["read"]);
  expect(ids(active.filter(groups, 4_000))).toEqual(["read"]);
});

test("a group without members counts while its commits move, and for a while after", () => {
  const active = new ActiveGroups();
  active.filter([group("manual", 0, 5n)], 0);
  expect(ids(active.filter([group("manual", 0, 6n)], 4_000))).toEqual(["manual"]);
  expect(ids(active.filter([group("manual", 0, 6n)], 60_000))).toEqual(["manual"]);
  expect(ids(active.filter([group("manual", 0, 6n)], 120_000))).toEqual([]);
});

test("a group that appears after the first reading has just committed", () => {
  const active = new ActiveGroups();
  active.filter([], 0);
  expect(ids(active.filter([group("new", 0, 5n)], 4_000))).toEqual(["new"]);
});
