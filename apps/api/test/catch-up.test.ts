import type { CatchUpAnswer } from "@millrace/broker-admin";
import { bootstrapServers } from "@millrace/domain";
import { expect, test } from "vitest";
import { apiFixture, call, runningCluster } from "./fixture.ts";

const fixture = apiFixture();
const PAST_2_53 = String(2n ** 62n + 1n);

const direction = {
  baseline_bytes_per_second: null,
  tiers: [
    {
      tier: "catch_up_miss" as const,
      bytes: PAST_2_53,
      waited_seconds: 0.5,
      waiting: 2,
      waiting_mean: 0,
    },
  ],
};
const answer: CatchUpAnswer = {
  time: "2026-11-21T18:00:00.123456Z",
  node_id: 0,
  cache: {
    size_bytes: "134217728",
    used_bytes: "1048576",
    hits: "3",
    misses: "1",
    hit_ratio: 0.75,
    fetched_bytes: PAST_2_53,
    delivered_bytes: PAST_2_53,
    fetched_per_delivered: 1,
    evicted_unread_bytes: "0",
    readers: 1,
    prefetch_window_bytes: { max: "1048576", median: "524288" },
  },
  network: { ingress: direction, egress: { ...direction, baseline_bytes_per_second: "1048576" } },
  bucket_calls: [{ operation: "get", status: "ok", calls: "12" }],
  bucket_reads: { per_second: 10.5, failed_per_second: 0, seconds_mean: 0.02 },
  groups: [
    {
      group: "readers",
      state: "Stable",
      mode: "catch_up",
      backlog_records: PAST_2_53,
      backlog_bytes: PAST_2_53,
      read_bytes_per_second: 10_000_000.5,
      produce_bytes_per_second: 1_000_000,
      drain_bytes_per_second: 9_000_000.5,
      eta_seconds: 12.5,
      eta_low_seconds: 10.5,
      eta_high_seconds: null,
      progress: 0.25,
      partitions: [
        {
          topic: "orders",
          partition: 0,
          position: "5",
          high_watermark: PAST_2_53,
          mode: "falling_behind",
          backlog_records: PAST_2_53,
          backlog_bytes: PAST_2_53,
          read_bytes_per_second: 0,
          produce_bytes_per_second: 3,
          drain_bytes_per_second: -3,
          eta_seconds: null,
          eta_low_seconds: null,
          eta_high_seconds: null,
        },
      ],
    },
  ],
  truncated: false,
};

test("the broker's answer comes through to the last digit", async () => {
  const { app, db, kafka, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "behind");
  kafka.catchUps.set(bootstrapServers(cluster) ?? "", answer);
  const path = `/v1/clusters/${cluster.id}/catch-up`;
  const { status, body } = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect(status).toBe(200);
  expect(body).toEqual({
    ...answer,
    groups: answer.groups.map((group) => ({ ...group, cause: null })),
  });
});

test("a broker that does not answer is 503, one that talks nonsense 502", async () => {
  const { app, db, kafka, ours } = fixture;
  const { cluster } = await runningCluster(db, ours, "silent");
  const path = `/v1/clusters/${cluster.id}/catch-up`;
  const nonsense = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect([nonsense.status, nonsense.body.code]).toEqual([502, "broker_failed"]);
  kafka.down.add(bootstrapServers(cluster) ?? "");
  const silent = await call(app, "GET", path, { apiKey: ours.apiKey });
  expect([silent.status, silent.body.code]).toEqual([503, "broker_unavailable"]);
});

test("a cluster that is not up yet has nobody behind to show", async () => {
  const { app, ours } = fixture;
  const { apiKey } = ours;
  const made = await call(app, "POST", "/v1/clusters", { apiKey, body: { name: "early" } });
  const path = `/v1/clusters/${made.body.metadata.id}/catch-up`;
  const early = await call(app, "GET", path, { apiKey });
  expect([early.status, early.body.code]).toEqual([409, "cluster_not_ready"]);
});
