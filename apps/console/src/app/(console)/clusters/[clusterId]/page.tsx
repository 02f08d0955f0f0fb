import { ClusterOverview } from "../../../../cluster/cluster-overview.tsx";
import { ClusterTitle } from "../../../../cluster/cluster-title.tsx";

export default async function OverviewPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Overview" />
      <ClusterOverview clusterId={clusterId} />
    </>
  );
}
