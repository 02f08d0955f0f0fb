import {
  type Benchmark,
  type BenchmarkId,
  type BenchmarkSample,
  type ClusterId,
  isId,
  notFound,
  type Principal,
} from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface BenchmarkView {
  readonly benchmark: Benchmark;
  /** In order; those so far while it runs. */
  readonly samples: readonly BenchmarkSample[];
}

/** A benchmark with its samples. Throws `not_found`. */
export async function getBenchmark(
  core: Core,
  principal: Principal,
  { clusterId, benchmarkId }: { clusterId: ClusterId; benchmarkId: BenchmarkId },
): Promise<BenchmarkView> {
  const cluster = await requireCluster(core, principal, clusterId);
  const benchmark = isId("bmk", benchmarkId)
    ? await core.db.benchmarks.get(cluster.id, benchmarkId)
    : undefined;
  if (!benchmark) throw notFound("benchmark", benchmarkId);
  return { benchmark, samples: await core.db.benchmarks.samples(benchmark.id) };
}
