import { ClusterOperations } from "../../../../../cluster/cluster-operations.tsx";
import { titleOf } from "../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Operations");

export default async function OperationsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterOperations clusterId={(await props.params).clusterId} />;
}
