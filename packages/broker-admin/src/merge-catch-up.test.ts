import { expect, test } from "vitest";
import { CatchUpAnswer } from "./catch-up.ts";
import { mergeCatchUp } from "./merge-catch-up.ts";

type Group = CatchUpAnswer["groups"][number];

function group(name: string, values: Partial<Group>): Group {
  return {
    ...{ group: name, state: "Stable", mode: "tail", backlog_records: "0", backlog_bytes: "0" },
    ...{ read_bytes_per_second: 0, produce_bytes_per_second: 0, drain_bytes_per_second: 0 },
    ...{ eta_seconds: null, eta_low_seconds: null, eta_high_seconds: null, progress: null },
    partitions: [],
    ...values,
  };
}

function answer(nodeId: number, hits: string, misses: string, groups: readonly Group[]) {
  const tiers = [{ tier: "tail_read", bytes: "10", waited_seconds: 1, waiting: 2 }];
  const direction = { baseline_bytes_per_second: "100", tiers };
  return CatchUpAnswer.parse({
    ...{ time: "2026-11-28T00:00:00Z", node_id: nodeId, truncated: false, groups },
    cache: {
      ...{ size_bytes: "100", used_bytes: "50", hits, misses, hit_ratio: 0.5 },
      ...{ fetched_bytes: "30", delivered_bytes: "20", fetched_per_delivered: 1.5 },
      ...{ evicted_unread_bytes: "1", readers: 1 },
      prefetch_window_bytes: { max: "8", median: "4" },
    },
    network: { ingress: direction, egress: { ...direction, baseline_bytes_per_second: null } },
    bucket_calls: [{ operation: "get", status: "200", calls: "5" }],
    bucket_reads: { per_second: nodeId, failed_per_second: 0, seconds_mean: nodeId },
  });
}

test("amounts are added, and ratios follow from the sums", () => {
  const merged = mergeCatchUp([answer(1, "90", "10", []), answer(2, "0", "100", [])]);
  expect(merged.cache).toMatchObject({ size_bytes: "200", hit_ratio: 0.45, readers: 2 });
  expect(merged.network.ingress.baseline_bytes_per_second).toBe("200");
  expect(merged.network.egress.baseline_bytes_per_second).toBeNull();
  expect(merged.network.ingress.tiers).toMatchObject([{ bytes: "20", waiting: 4 }]);
  expect(merged.bucket_calls).toEqual([{ operation: "get", status: "200", calls: "10" }]);
  expect(merged.bucket_reads).toMatchObject({ per_second: 3, seconds_mean: 5 / 3 });
});

test("a group that reads from several brokers has caught up when it has at each", () => {
  const behind = group("orders", { mode: "catch_up", backlog_bytes: "7", eta_seconds: 30 });
  const slower = group("orders", { mode: "falling_behind", backlog_bytes: "3" });
  const done = group("orders", { mode: "tail" });
  const [both] = mergeCatchUp([answer(1, "0", "0", [behind]), answer(2, "0", "0", [done])]).groups;
  expect(both).toMatchObject({ mode: "catch_up", backlog_bytes: "7", eta_seconds: 30 });
  const answers = [answer(1, "0", "0", [behind]), answer(2, "0", "0", [slower])] as const;
  const [worse] = mergeCatchUp(answers).groups;
  expect(worse).toMatchObject({ mode: "falling_behind", backlog_bytes: "10", eta_seconds: null });
});
