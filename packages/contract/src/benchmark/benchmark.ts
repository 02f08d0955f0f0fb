import {
  BENCHMARK_SAMPLE_PHASES,
  BENCHMARK_WORKLOADS,
  CLUSTER_SIZE_NAMES,
  OPERATION_PHASES,
  TUNING_KNOBS,
} from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

/** A benchmark writes at most 16 GiB, far below 2^53, so amounts are plain numbers. */
const amount = z.number();

const latency = z
  .object({ p50: amount, p95: amount, p99: amount, p999: amount, max: amount })
  .meta({ id: "LatencyPercentiles", description: "Milliseconds" });

const flow = z
  .object({
    records: amount,
    bytes: amount,
    records_per_second: amount,
    bytes_per_second: amount,
    errors: amount,
    latency_ms: latency.nullable().meta({
      description:
        "Produce: from the time a record was due until it was acknowledged. Consume: from produce to consume",
    }),
  })
  .meta({ id: "BenchmarkFlow" });

export const BenchmarkSample = z
  .object({
    elapsed_seconds: amount,
    phase: z.enum(BENCHMARK_SAMPLE_PHASES),
    produced: flow.nullable(),
    consumed: flow.nullable(),
    lag_records: amount.nullable().meta({ description: "Records not consumed yet" }),
  })
  .meta({ id: "BenchmarkSample" });
export type BenchmarkSample = z.infer<typeof BenchmarkSample>;

export const Benchmark = z
  .object({
    id: z.string(),
    cluster_id: z.string(),
    operation_id: z.string(),
    phase: z.enum(OPERATION_PHASES).meta({ description: "Phase of the operation" }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    workload: z.enum(BENCHMARK_WORKLOADS),
    duration_seconds: z.int(),
    record_size_bytes: z.int(),
    bytes_per_second: z.int().meta({ description: "The rate, with every bound applied" }),
    partitions: z.int(),
    size: z.enum(CLUSTER_SIZE_NAMES).meta({ description: "Size of the cluster at that time" }),
    created_by: z.object({ kind: z.enum(["user", "api_key"]), id: z.string(), name: z.string() }),
    created_at: timestamp,
    started_at: timestamp.nullable(),
    ended_at: timestamp.nullable(),
    tuning: z
      .object({
        version: z.int(),
        values: z.record(z.enum(TUNING_KNOBS), z.int()),
        changes: z
          .array(z.object({ field: z.enum(TUNING_KNOBS), from: z.int(), to: z.int() }))
          .meta({ description: "Since the last benchmark with a report" }),
        changed_during_run: z.boolean(),
      })
      .meta({ id: "BenchmarkTuning" }),
    report: z
      .object({
        duration_seconds: amount.meta({ description: "Measured time, without the warm-up" }),
        produced: flow.nullable(),
        consumed: flow.nullable(),
        end_to_end_latency_ms: latency.nullable(),
        catch_up: z
          .object({
            backlog_bytes: amount,
            seconds: amount.meta({ description: "From the start of the consumers" }),
            bytes_per_second: amount,
            complete: z.boolean().meta({
              description: "True if the consumers reached what was being produced",
            }),
            produce_latency_before_ms: latency.nullable(),
            produce_latency_during_ms: latency.nullable(),
          })
          .nullable()
          .meta({ id: "BenchmarkCatchUp" }),
        unsent_records: amount.meta({
          description: "Records that were due but not sent: the producers did not keep up",
        }),
        kept_up: z.boolean().meta({
          description:
            "False if the load did not reach its rate: records were not sent, or less than 95 % of the rate was produced. The latencies then include waiting in the client",
        }),
      })
      .nullable()
      .meta({ id: "BenchmarkReport", description: "null until the load has ended" }),
  })
  .meta({ id: "Benchmark" });
export type Benchmark = z.infer<typeof Benchmark>;

export const BenchmarkDetail = Benchmark.extend({
  samples: z
    .array(BenchmarkSample)
    .meta({ description: "One for each second; those so far while the load runs" }),
}).meta({ id: "BenchmarkDetail" });
export type BenchmarkDetail = z.infer<typeof BenchmarkDetail>;
