import { ClusterOverview } from "../../../../cluster/cluster-overview.tsx";

export default async function OverviewPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterOverview clusterId={(await props.params).clusterId} />;
}
