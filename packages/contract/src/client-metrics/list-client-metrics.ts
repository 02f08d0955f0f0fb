import { CLIENT_ID_MAX, CLIENT_METRIC_KINDS, MEASURED_CLIENTS_MAX } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId, timestamp } from "../field.ts";

/** Clients where no limit is given. */
const LIMIT_DEFAULT = 100;
const METRIC_NAME_MAX = 255;

const ClientMetric = z
  .object({
    name: z.string(),
    labels: z.record(z.string(), z.string()),
    kind: z.enum(CLIENT_METRIC_KINDS),
    value: z.number().nullable().meta({
      description: "Of a histogram, the sum of its values. Null if it is unknown or not a number",
    }),
    count: z.number().nullable().meta({ description: "Values of a histogram" }),
  })
  .meta({ id: "ClientMetric" });

export const MeasuredClient = z
  .object({
    client_id: z.string(),
    client_instance_id: z.string().meta({ description: "The client instance ID" }),
    software_name: z.string().nullable(),
    software_version: z.string().nullable(),
    address: z.string(),
    interval_ms: z.number().meta({ description: "The client's push interval" }),
    pushed_at: timestamp,
    terminating: z.boolean().meta({ description: "The client announced that it is stopping" }),
    metrics: z.array(ClientMetric),
  })
  .meta({ id: "MeasuredClient" });
export type MeasuredClient = z.infer<typeof MeasuredClient>;

export const listClientMetrics = defineContract({
  name: "clientMetrics.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/client-metrics",
  summary: "List client metrics",
  description:
    "The metrics that clients pushed last (KIP-714), sorted by client ID. Clients push only what a subscription requests: create one with kafka-client-metrics.sh.",
  tag: "Metrics",
  permission: "metrics:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    client_id: z.string().max(CLIENT_ID_MAX).optional(),
    metric: z
      .string()
      .max(METRIC_NAME_MAX)
      .optional()
      .meta({ description: "Only metrics whose names start with this" }),
    limit: z.coerce
      .number()
      .int()
      .min(1)
      .max(MEASURED_CLIENTS_MAX)
      .default(LIMIT_DEFAULT)
      .meta({ description: "Maximum number of clients" }),
  },
  response: z
    .object({
      items: z.array(MeasuredClient),
      truncated: z.boolean().meta({ description: "Clients or values were left out: use a filter" }),
    })
    .meta({ id: "ClientMetricsList" }),
});
