import { BenchmarkPage } from "../../../../../../benchmark/benchmark-page.tsx";
import { titleOf } from "../../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Benchmark");

export default async function ClusterBenchmarkPage(props: {
  params: Promise<{ clusterId: string; benchmarkId: string }>;
}) {
  const { clusterId, benchmarkId } = await props.params;
  return <BenchmarkPage clusterId={clusterId} benchmarkId={benchmarkId} />;
}
