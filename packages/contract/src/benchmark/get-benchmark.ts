import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { BenchmarkDetail } from "./benchmark.ts";

export const getBenchmark = defineContract({
  name: "benchmark.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/benchmarks/{benchmark_id}",
  summary: "Get a benchmark",
  description: "Its report with every sample; while it runs, the samples so far.",
  tag: "Benchmarks",
  permission: "metrics:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), benchmark_id: pathId("bmk") },
  response: BenchmarkDetail,
});
