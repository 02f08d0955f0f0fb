import { BENCHMARK_BOUNDS, BENCHMARK_WORKLOADS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Operation } from "../operation/operation.ts";

const { durationSeconds, recordSizeBytes, partitions } = BENCHMARK_BOUNDS;

function bounded(bounds: { min: number; max: number; default: number }) {
  return z.int().min(bounds.min).max(bounds.max).default(bounds.default);
}

export const runBenchmark = defineContract({
  name: "benchmark.run",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/benchmarks",
  summary: "Run a benchmark",
  description:
    "Starts an operation that runs a load on a topic of its own, which is deleted afterwards. Refused " +
    "while another operation runs, while the write-ahead log is more than half full, and while " +
    "uploads are behind. Writes at most 16 GiB.",
  tag: "Benchmarks",
  permission: "benchmark:run",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  body: {
    workload: z.enum(BENCHMARK_WORKLOADS).default("produce").meta({
      description:
        "produce: write records. end_to_end: also consume them. catch_up: write a backlog, then read it from the beginning",
    }),
    duration_seconds: bounded(durationSeconds).meta({
      description: "Time of the load, warm-up included",
    }),
    record_size_bytes: bounded(recordSizeBytes),
    bytes_per_second: z.int().min(1).nullable().default(null).meta({
      description:
        "null: 16 MiB per second, which every size keeps up with. At most a quarter of the write-ahead log per second",
    }),
    partitions: bounded(partitions),
  },
  response: Operation,
});
