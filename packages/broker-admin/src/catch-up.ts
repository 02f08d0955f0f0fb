import { CATCH_UP_MODES, NETWORK_TIERS } from "@millrace/domain";
import { z } from "zod";

/** 64-bit numbers are decimal strings: JSON numbers lose digits past 2^53. */
const int64 = z.string().regex(/^-?\d{1,19}$/);
const count = z.int().nonnegative();
const mode = z.enum(CATCH_UP_MODES);

const direction = z.object({
  baseline_bytes_per_second: int64.nullable(),
  tiers: z.array(
    z.object({
      tier: z.enum(NETWORK_TIERS),
      bytes: int64,
      waited_seconds: z.number(),
      waiting: count,
      waiting_mean: z.number().default(0),
    }),
  ),
});

const partition = z.object({
  topic: z.string(),
  partition: count,
  position: int64,
  high_watermark: int64,
  mode,
  backlog_records: int64,
  backlog_bytes: int64,
  read_bytes_per_second: z.number(),
  produce_bytes_per_second: z.number().default(0),
  drain_bytes_per_second: z.number(),
  eta_seconds: z.number().nullable(),
  eta_low_seconds: z.number().nullable().default(null),
  eta_high_seconds: z.number().nullable().default(null),
});

/**
 * What a broker answers at `/v1/catch-up`: its block cache, its network and how far each group is
 * behind. It is passed on as it is; what a newer broker says beyond this is left out. What has a default is
 * missing in answers of older brokers, which run on until they are upgraded.
 */
export const CatchUpAnswer = z.object({
  /** RFC 3339, UTC. */
  time: z.iso.datetime(),
  node_id: count,
  cache: z.object({
    size_bytes: int64,
    used_bytes: int64,
    hits: int64,
    misses: int64,
    /** 0 to 1. */
    hit_ratio: z.number().nullable(),
    fetched_bytes: int64,
    delivered_bytes: int64,
    fetched_per_delivered: z.number().nullable(),
    evicted_unread_bytes: int64,
    readers: count,
    prefetch_window_bytes: z.object({ max: int64, median: int64 }),
  }),
  network: z.object({ ingress: direction, egress: direction }),
  bucket_calls: z.array(z.object({ operation: z.string(), status: z.string(), calls: int64 })),
  bucket_reads: z
    .object({
      per_second: z.number(),
      failed_per_second: z.number(),
      seconds_mean: z.number().nullable(),
    })
    .default({ per_second: 0, failed_per_second: 0, seconds_mean: null }),
  groups: z.array(
    z.object({
      group: z.string(),
      state: z.string(),
      mode,
      backlog_records: int64,
      backlog_bytes: int64,
      read_bytes_per_second: z.number(),
      produce_bytes_per_second: z.number(),
      drain_bytes_per_second: z.number(),
      eta_seconds: z.number().nullable(),
      eta_low_seconds: z.number().nullable().default(null),
      eta_high_seconds: z.number().nullable().default(null),
      /** 0 to 1. */
      progress: z.number().nullable(),
      partitions: z.array(partition),
    }),
  ),
  truncated: z.boolean(),
});
export type CatchUpAnswer = z.infer<typeof CatchUpAnswer>;
