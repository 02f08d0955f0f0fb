import { BROKER_LINK_STATES, MEMBER_STATES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { int64, pathId, timestamp } from "../field.ts";

/** `unknown`: no broker of the cluster answers. */
export const BROKER_STATES = [...MEMBER_STATES, "unknown"] as const;

const BrokerWal = z
  .object({
    capacity_bytes: int64,
    used_bytes: int64,
    seconds_left: z.int().nullable().meta({
      description:
        "Seconds until the write-ahead log is full at the current write rate if uploads stop. At most 86,400",
    }),
    upload_pending_bytes: int64,
    uploads_wait_for: z
      .string()
      .nullable()
      .meta({ description: "What uploads to the bucket wait for; null while they run" }),
  })
  .meta({ id: "BrokerWal" });

export const Broker = z
  .object({
    broker_id: z.int().meta({ description: "Kafka's node id" }),
    state: z.enum(BROKER_STATES).meta({
      description:
        "active: serves; draining: gives its partitions away; fenced: was not heard from, the others have taken " +
        "over; left: has stopped; unknown: nothing was heard of it",
    }),
    zone: z.string().nullable(),
    version: z.string().nullable(),
    uptime_seconds: z.int().nullable(),
    leaders: z
      .int()
      .nullable()
      .meta({ description: "Partitions that it leads; null for the only broker of a cluster" }),
    moving: z.int().nullable().meta({ description: "Those on their way to another broker" }),
    load: int64.nullable().meta({
      description:
        "Bytes per second that clients write to these partitions and read from them; each request counts as 8 KiB. " +
        "null until it is measured, and for the only broker of a cluster",
    }),
    wal: BrokerWal.nullable().meta({ description: "null while the broker does not answer" }),
    control_link: z.enum(BROKER_LINK_STATES),
    last_heard_at: timestamp.nullable().meta({ description: "null: it has never connected" }),
  })
  .meta({ id: "Broker" });
export type Broker = z.infer<typeof Broker>;

const BrokerEvent = z
  .object({
    at: timestamp,
    kind: z
      .string()
      .meta({ description: "Such as joined, fenced, takeover, draining, left, moving" }),
    broker_id: z.int().nullable(),
    text: z.string(),
  })
  .meta({ id: "BrokerEvent" });
export type BrokerEvent = z.infer<typeof BrokerEvent>;

export const BrokerList = z
  .object({
    brokers: z.array(Broker),
    events: z
      .array(BrokerEvent)
      .meta({ description: "What happened to the brokers, newest first, 200 at most" }),
  })
  .meta({ id: "BrokerList" });

export const listBrokers = defineContract({
  name: "cluster.brokers",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/brokers",
  summary: "List brokers",
  description: "The brokers of a cluster, as they are now, and what happened to them.",
  tag: "Clusters",
  permission: "cluster:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  response: BrokerList,
});
