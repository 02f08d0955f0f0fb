import { METRIC_NAMES, METRIC_STEP_SECONDS_MIN } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { instant, pathId, withoutNul } from "../field.ts";

/** Kafka has no bound for the name of a group; a URL and an index of the database have. */
const METRIC_GROUP_LENGTH_MAX = 500;

const INSTANT = "RFC 3339, or milliseconds since the epoch";

export const MetricSeries = z
  .object({
    name: z.enum(METRIC_NAMES),
    unit: z.string(),
    /** [milliseconds since the epoch, value]; null where nothing was measured. */
    points: z.array(z.tuple([z.number(), z.number().nullable()])),
  })
  .meta({ id: "MetricSeries" });
export type MetricSeries = z.infer<typeof MetricSeries>;

/** The range, and what of the cluster it is about. */
export const metricsQuery = {
  from: instant.optional().meta({
    description: `Start, not more than 400 days ago; 15 minutes before \`to\` by default. ${INSTANT}`,
  }),
  to: instant.optional().meta({ description: `End; now by default. ${INSTANT}` }),
  step: z
    .string()
    .regex(/^\d{1,6}s?$/, { error: "must be whole seconds like 10 or 10s", abort: true })
    .refine((value) => Number.parseInt(value, 10) >= METRIC_STEP_SECONDS_MIN, {
      error: `must be ${METRIC_STEP_SECONDS_MIN} seconds or more`,
    })
    .optional()
    .meta({
      description:
        "Seconds between points, not more than the range has; derived from the range by default. At least 10 where the range begins more than 2 hours ago, 60 after 2 days, 600 after 15 days; step_seconds of the answer says what it is",
    }),
  broker: z
    .string()
    .regex(/^\d{1,9}$/, "must be a broker's id")
    .optional()
    .meta({ description: "Only this broker's series. At most one of broker, topic and group" }),
  topic: z
    .string()
    .min(1)
    .max(249)
    .refine(...withoutNul)
    .optional()
    .meta({ description: "Only this topic's series" }),
  group: z
    .string()
    .min(1)
    .max(METRIC_GROUP_LENGTH_MAX)
    .refine(...withoutNul)
    .optional()
    .meta({
      description:
        "Only the lag of this consumer group. A group that is not read has values while it is behind, if it is among the cluster's 200 idle groups with the largest lag",
    }),
};

export const queryMetrics = defineContract({
  name: "metrics.query",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/metrics",
  summary: "Query metrics",
  description:
    "Rates, percentiles and gauges over any range of the last 400 days. A value is null where nothing was measured: a cluster that was paused or could not be read has a gap. consumer_lag without group is the sum over active groups: those with members, and those that committed in the last 90 seconds. Until a group commits an offset, its lag counts from the start of the log. A broker, topic or group that does not exist and has no values in the range is not found.",
  tag: "Metrics",
  permission: "metrics:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: metricsQuery,
  response: z
    .object({
      from: z.number(),
      to: z.number(),
      step_seconds: z.int(),
      newest_at: z.number().nullable().meta({
        description:
          "Time of the last reading, in milliseconds since the epoch; null if there is none",
      }),
      series: z.array(MetricSeries),
    })
    .meta({ id: "MetricsAnswer" }),
});

export const exportMetrics = defineContract({
  name: "metrics.export",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/metrics/export",
  summary: "Export metrics",
  description:
    "As CSV (RFC 4180) with a header line: the column time (RFC 3339, UTC), then one column per series, named with its unit. A value is empty where nothing was measured.",
  tag: "Metrics",
  permission: "metrics:read",
  successStatus: 200,
  text: "text/csv; charset=utf-8",
  params: { cluster_id: pathId("clu") },
  query: metricsQuery,
  response: z.string().meta({ description: "CSV" }),
});

export const prometheusMetrics = defineContract({
  name: "metrics.prometheus",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/prometheus",
  summary: "Scrape metrics with Prometheus",
  description:
    "All current series of the cluster's brokers as OpenMetrics 1.0.0 text, read from the brokers when asked. Each sample has the label broker. In Prometheus, set authorization.credentials to an API key.",
  tag: "Metrics",
  permission: "metrics:read",
  successStatus: 200,
  text: "application/openmetrics-text; version=1.0.0; charset=utf-8",
  params: { cluster_id: pathId("clu") },
  response: z.string().meta({ description: "OpenMetrics" }),
});
