import { BenchmarkList } from "../../../../../benchmark/benchmark-list.tsx";
import { titleOf } from "../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Benchmarks");

export default async function ClusterBenchmarksPage(props: {
  params: Promise<{ clusterId: string }>;
}) {
  return <BenchmarkList clusterId={(await props.params).clusterId} />;
}
