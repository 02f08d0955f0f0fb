import { exportMetrics as contract } from "@millrace/contract";
import { queryClusterMetrics } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { metricsCsv } from "./metrics-csv.ts";
import { metricsInput } from "./query-metrics.ts";

export const exportMetricsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const { series } = await queryClusterMetrics(ctx.core, ctx.principal, metricsInput(input));
    return metricsCsv(series);
  });
