/** What a broker with the topic `orders` says, for every request that the API passes on. */
import type { CatchUpAnswer } from "@millrace/broker-admin";
import { event, json, type RecordBroker } from "../record-broker.ts";

const VALUE = { encoding: "text", data: "v", bytes: 1, truncated: false };
const RECORD = {
  partition: 0,
  offset: "9007199254740993",
  timestamp_ms: "1700000000000",
  timestamp_type: "create_time",
  key: null,
  value: VALUE,
  tombstone: false,
  headers: [{ name: "h", value: null }],
  size_bytes: 10,
};
const PROGRESS = {
  scanned_records: 1,
  scanned_bytes: 10,
  partitions: [{ partition: 0, earliest_offset: "0", end_offset: "1", next_offset: "1" }],
};
const PRODUCED = { partition: 0, offset: "0", timestamp_ms: "1700000000000" };

/** Answers of a broker's record API: pages, streams that end, and produce requests. */
export const answerRecords: RecordBroker["answer"] = (response, { method, path, body }) => {
  if (path.endsWith("/stream")) {
    response.end(event("record", "c1", RECORD) + event("progress", "c2", PROGRESS));
  } else if (method === "POST") {
    const { records } = body as { records: unknown[] };
    json(response, 200, { results: records.map(() => PRODUCED) });
  } else {
    json(response, 200, { records: [RECORD], cursor: "abc", end: true, ...PROGRESS });
  }
};

const direction = {
  baseline_bytes_per_second: null,
  tiers: [
    {
      tier: "catch_up_miss" as const,
      bytes: "1",
      waited_seconds: 0.5,
      waiting: 2,
      waiting_mean: 0,
    },
  ],
};

export const CATCH_UP: CatchUpAnswer = {
  time: "2026-11-21T18:00:00.123456Z",
  node_id: 0,
  cache: {
    size_bytes: "134217728",
    used_bytes: "1048576",
    hits: "3",
    misses: "1",
    hit_ratio: 0.75,
    fetched_bytes: "1",
    delivered_bytes: "1",
    fetched_per_delivered: 1,
    evicted_unread_bytes: "0",
    readers: 1,
    prefetch_window_bytes: { max: "1048576", median: "524288" },
  },
  network: { ingress: direction, egress: direction },
  bucket_calls: [{ operation: "get", status: "ok", calls: "12" }],
  bucket_reads: { per_second: 10.5, failed_per_second: 0, seconds_mean: 0.02 },
  groups: [],
  truncated: false,
};
