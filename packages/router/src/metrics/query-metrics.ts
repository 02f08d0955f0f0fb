import { queryMetrics as contract } from "@millrace/contract";
import { type QueryClusterMetricsInput, queryClusterMetrics } from "@millrace/core";
import type { MetricPoint } from "@millrace/domain";
import type { z } from "zod";
import { procedure } from "../procedure.ts";

export const queryMetricsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const metrics = await queryClusterMetrics(ctx.core, ctx.principal, metricsInput(input));
    return {
      from: metrics.from.getTime(),
      to: metrics.to.getTime(),
      step_seconds: metrics.stepSeconds,
      newest_at: metrics.newest?.getTime() ?? null,
      series: metrics.series.map(({ name, unit, points }) => ({
        name,
        unit,
        points: points.map(([timeMs, value]: MetricPoint): [number, number | null] => [
          timeMs,
          value,
        ]),
      })),
    };
  });

/** The query of a request in the core's terms. */
export function metricsInput(input: z.output<typeof contract.input>): QueryClusterMetricsInput {
  return {
    clusterId: input.cluster_id,
    from: instantOf(input.from),
    to: instantOf(input.to),
    stepSeconds: input.step === undefined ? undefined : Number.parseInt(input.step, 10),
    brokerId: input.broker === undefined ? undefined : Number(input.broker),
    topic: input.topic,
    groupId: input.group,
  };
}

/** RFC 3339, or milliseconds since the epoch. */
function instantOf(text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  return new Date(/^\d+$/.test(text) ? Number(text) : text);
}
