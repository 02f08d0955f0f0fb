/** What a broker says of those who read behind, for tests. */
import type { CatchUp } from "@millrace/contract";
import type { CatchUpGroup, CatchUpPartition } from "./backlog.ts";

export function partitionOf(changes: Partial<CatchUpPartition> = {}): CatchUpPartition {
  return {
    topic: "orders",
    partition: 0,
    position: "1000",
    high_watermark: "3000",
    mode: "catch_up",
    backlog_records: "2000",
    backlog_bytes: "2097152",
    read_bytes_per_second: 1024 ** 2,
    produce_bytes_per_second: 512 * 1024,
    drain_bytes_per_second: 512 * 1024,
    eta_seconds: 240,
    eta_low_seconds: 200,
    eta_high_seconds: 320,
    ...changes,
  };
}

export function groupOf(changes: Partial<CatchUpGroup> = {}): CatchUpGroup {
  return {
    group: "billing",
    state: "Stable",
    mode: "catch_up",
    backlog_records: "1234567",
    backlog_bytes: String(1.5 * 1024 ** 3),
    read_bytes_per_second: 80 * 1024 ** 2,
    produce_bytes_per_second: 10 * 1024 ** 2,
    drain_bytes_per_second: 70 * 1024 ** 2,
    eta_seconds: 240,
    eta_low_seconds: 200,
    eta_high_seconds: 320,
    cause: null,
    progress: 0.62,
    partitions: [partitionOf()],
    ...changes,
  };
}

const direction: CatchUp["network"]["ingress"] = {
  baseline_bytes_per_second: null,
  tiers: [
    { tier: "wal_upload", bytes: "0", waited_seconds: 0, waiting: 0, waiting_mean: 0 },
    { tier: "tail_read", bytes: "1048576", waited_seconds: 0, waiting: 0, waiting_mean: 0 },
    { tier: "catch_up_miss", bytes: "10485760", waited_seconds: 12.5, waiting: 3, waiting_mean: 0 },
    { tier: "prefetch", bytes: "0", waited_seconds: 0, waiting: 0, waiting_mean: 0 },
    { tier: "compaction", bytes: "0", waited_seconds: 0, waiting: 0, waiting_mean: 0 },
  ],
};

export const cache: CatchUp["cache"] = {
  size_bytes: String(128 * 1024 ** 2),
  used_bytes: String(32 * 1024 ** 2),
  hits: "930",
  misses: "70",
  hit_ratio: 0.93,
  fetched_bytes: "104857600",
  delivered_bytes: "100000000",
  fetched_per_delivered: 1.04,
  evicted_unread_bytes: "0",
  readers: 8,
  prefetch_window_bytes: { max: "8388608", median: "1048576" },
};

export const network: CatchUp["network"] = {
  ingress: { ...direction, baseline_bytes_per_second: "104857600" },
  egress: direction,
};
