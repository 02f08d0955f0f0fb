import { METRIC_NAMES, METRIC_STEP_SECONDS_MIN } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

const instant = z
  .union([z.iso.datetime({ offset: true }), z.string().regex(/^\d{1,15}$/)])
  .meta({ description: "RFC 3339, or milliseconds since the epoch" });

export const MetricSeries = z
  .object({
    name: z.enum(METRIC_NAMES),
    unit: z.string(),
    /** [milliseconds since the epoch, value]; null where nothing was measured. */
    points: z.array(z.tuple([z.number(), z.number().nullable()])),
  })
  .meta({ id: "MetricSeries" });
export type MetricSeries = z.infer<typeof MetricSeries>;

export const queryMetrics = defineContract({
  name: "metrics.query",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/metrics",
  summary: "Query metrics",
  tag: "Metrics",
  permission: "metrics:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    from: instant.optional().meta({ description: "Start; 15 minutes before `to` by default" }),
    to: instant.optional().meta({ description: "End; now by default" }),
    step: z
      .string()
      .regex(/^\d{1,6}s?$/, "must be whole seconds like 10 or 10s")
      .refine((value) => Number.parseInt(value, 10) >= METRIC_STEP_SECONDS_MIN, {
        error: `must be ${METRIC_STEP_SECONDS_MIN} seconds or more`,
      })
      .optional()
      .meta({ description: "Seconds between points; derived from the range by default" }),
  },
  response: z
    .object({
      from: z.number(),
      to: z.number(),
      step_seconds: z.int(),
      series: z.array(MetricSeries),
    })
    .meta({ id: "MetricsAnswer" }),
});
