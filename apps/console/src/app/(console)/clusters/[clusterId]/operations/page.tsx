import { ClusterOperations } from "../../../../../cluster/cluster-operations.tsx";

export default async function OperationsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterOperations clusterId={(await props.params).clusterId} />;
}
