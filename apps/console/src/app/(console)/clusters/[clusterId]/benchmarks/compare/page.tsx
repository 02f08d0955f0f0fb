import { BenchmarkComparison } from "../../../../../../benchmark/benchmark-comparison.tsx";
import { titleOf } from "../../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Compare benchmarks");

export default async function CompareBenchmarksPage(props: {
  params: Promise<{ clusterId: string }>;
  searchParams: Promise<Record<string, string | string[] | undefined>>;
}) {
  const { clusterId } = await props.params;
  const { a, b } = await props.searchParams;
  return <BenchmarkComparison clusterId={clusterId} first={String(a)} second={String(b)} />;
}
