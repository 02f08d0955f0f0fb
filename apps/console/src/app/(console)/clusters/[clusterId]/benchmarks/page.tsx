import { BenchmarkList } from "../../../../../benchmark/benchmark-list.tsx";
import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";

export default async function ClusterBenchmarksPage(props: {
  params: Promise<{ clusterId: string }>;
}) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Benchmarks" />
      <BenchmarkList clusterId={clusterId} />
    </>
  );
}
