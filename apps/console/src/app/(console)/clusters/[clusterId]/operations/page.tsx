import { ClusterOperations } from "../../../../../cluster/cluster-operations.tsx";
import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";

export default async function OperationsPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Operations" />
      <ClusterOperations clusterId={clusterId} />
    </>
  );
}
