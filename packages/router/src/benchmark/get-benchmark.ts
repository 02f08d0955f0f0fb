import { getBenchmark as contract } from "@millrace/contract";
import { getBenchmark } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentBenchmark, presentSample } from "./present-benchmark.ts";

export const getBenchmarkProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const { benchmark, samples } = await getBenchmark(ctx.core, ctx.principal, {
      clusterId: input.cluster_id,
      benchmarkId: input.benchmark_id,
    });
    return { ...presentBenchmark(benchmark), samples: samples.map(presentSample) };
  });
