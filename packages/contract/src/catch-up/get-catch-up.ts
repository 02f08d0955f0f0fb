import { CATCH_UP_CAUSES, CATCH_UP_MODES, NETWORK_TIERS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { int64, pathId, timestamp } from "../field.ts";

/** Null until something was measured. */
const figure = z.number().nullable();
const mode = z.enum(CATCH_UP_MODES);

const partition = z
  .object({
    topic: z.string(),
    partition: z.int(),
    position: int64,
    high_watermark: int64,
    mode,
    backlog_records: int64,
    backlog_bytes: int64,
    read_bytes_per_second: z.number(),
    produce_bytes_per_second: z.number(),
    drain_bytes_per_second: z.number(),
    eta_seconds: figure,
    eta_low_seconds: figure,
    eta_high_seconds: figure,
  })
  .meta({ id: "CatchUpPartition" });

const group = z
  .object({
    group: z.string(),
    state: z.string(),
    mode,
    backlog_records: int64,
    backlog_bytes: int64,
    read_bytes_per_second: z
      .number()
      .meta({ description: "Exponentially weighted mean over 10 seconds" }),
    produce_bytes_per_second: z
      .number()
      .meta({ description: "Exponentially weighted mean over 10 seconds" }),
    drain_bytes_per_second: z.number().meta({
      description:
        "How fast the backlog shrinks, negative while it grows: read rate minus produce rate",
    }),
    eta_seconds: figure.meta({
      description:
        "Time until every member has caught up. A member's is its backlog by what it reads of all its partitions together",
    }),
    eta_low_seconds: figure.meta({
      description: "Lower bound of eta_seconds, from the fastest rate of the last two minutes",
    }),
    eta_high_seconds: figure.meta({
      description:
        "Upper bound of eta_seconds, from the slowest rate of the last two minutes; null if the backlog has not shrunk in all of them",
    }),
    cause: z
      .enum(CATCH_UP_CAUSES)
      .nullable()
      .meta({ description: "What keeps a group from catching up; null unless it falls behind" }),
    progress: figure.meta({ description: "0 to 1: share of the backlog already read" }),
    partitions: z.array(partition),
  })
  .meta({ id: "CatchUpGroup" });

const direction = z
  .object({
    baseline_bytes_per_second: int64.nullable().meta({ description: "null: unlimited" }),
    tiers: z.array(
      z.object({
        tier: z.enum(NETWORK_TIERS),
        bytes: int64,
        waited_seconds: z.number(),
        waiting: z.int(),
        waiting_mean: z.number().meta({
          description: "Requests that waited at a time, on average over the last 30 seconds",
        }),
      }),
    ),
  })
  .meta({ id: "NetworkDirection" });

const cache = z
  .object({
    size_bytes: int64,
    used_bytes: int64,
    hits: int64,
    misses: int64,
    hit_ratio: figure,
    fetched_bytes: int64,
    delivered_bytes: int64,
    fetched_per_delivered: figure,
    evicted_unread_bytes: int64,
    readers: z.int(),
    prefetch_window_bytes: z.object({ max: int64, median: int64 }),
  })
  .meta({ id: "BlockCache" });

/** The state of a broker's block cache and network, and the backlog of each consumer group. */
export const CatchUp = z
  .object({
    time: timestamp,
    node_id: z.int(),
    cache,
    network: z.object({ ingress: direction, egress: direction }),
    bucket_calls: z.array(z.object({ operation: z.string(), status: z.string(), calls: int64 })),
    bucket_reads: z
      .object({ per_second: z.number(), failed_per_second: z.number(), seconds_mean: figure })
      .meta({ description: "Reads of object storage over the last 30 seconds, each try counted" }),
    groups: z.array(group),
    truncated: z
      .boolean()
      .meta({ description: "True if the broker has more groups or partitions than it lists" }),
  })
  .meta({ id: "CatchUp" });
export type CatchUp = z.infer<typeof CatchUp>;

export const getCatchUp = defineContract({
  name: "catchUp.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/catch-up",
  summary: "Get catch-up status",
  description:
    "Backlog, read rate, remaining time and cause of delay of each consumer group, with the state of the block cache and the network.",
  tag: "Consumer groups",
  permission: "group:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: CatchUp,
});
