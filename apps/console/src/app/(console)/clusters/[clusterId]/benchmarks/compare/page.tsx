import { BenchmarkComparison } from "../../../../../../benchmark/benchmark-comparison.tsx";
import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";

export default async function CompareBenchmarksPage(props: {
  params: Promise<{ clusterId: string }>;
  searchParams: Promise<Record<string, string | string[] | undefined>>;
}) {
  const { clusterId } = await props.params;
  const { a, b } = await props.searchParams;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Compare benchmarks" />
      <BenchmarkComparison clusterId={clusterId} first={String(a)} second={String(b)} />
    </>
  );
}
