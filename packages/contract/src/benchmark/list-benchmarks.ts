import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Benchmark } from "./benchmark.ts";

export const listBenchmarks = defineContract({
  name: "benchmark.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/benchmarks",
  summary: "List benchmarks",
  description: "Newest first, without their samples. The last 50 of a cluster are kept.",
  tag: "Benchmarks",
  permission: "metrics:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: pageQuery,
  response: pageOf(Benchmark).meta({ id: "BenchmarkPage" }),
});
