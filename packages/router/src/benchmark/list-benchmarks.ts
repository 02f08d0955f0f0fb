import { listBenchmarks as contract } from "@millrace/contract";
import { listBenchmarks } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentBenchmark } from "./present-benchmark.ts";

export const listBenchmarksProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listBenchmarks(ctx.core, ctx.principal, request), presentBenchmark);
  });
