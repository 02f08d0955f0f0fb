import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";
import { ClientMetrics } from "../../../../../consumer-group/client-metrics.tsx";
import { GroupList } from "../../../../../consumer-group/group-list.tsx";

export default async function GroupsPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Consumer groups" />
      <GroupList clusterId={clusterId} />
      <ClientMetrics clusterId={clusterId} />
    </>
  );
}
