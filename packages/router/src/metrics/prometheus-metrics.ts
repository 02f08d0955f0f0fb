import { prometheusMetrics as contract } from "@millrace/contract";
import { getPrometheusMetrics } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const prometheusMetricsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx, input }) => getPrometheusMetrics(ctx.core, ctx.principal, input.cluster_id));
