import { BenchmarkPage } from "../../../../../../benchmark/benchmark-page.tsx";
import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";

export default async function ClusterBenchmarkPage(props: {
  params: Promise<{ clusterId: string; benchmarkId: string }>;
}) {
  const { clusterId, benchmarkId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Benchmark" />
      <BenchmarkPage clusterId={clusterId} benchmarkId={benchmarkId} />
    </>
  );
}
