import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";
import { OperationPage } from "../../../../../../operation/operation-page.tsx";

export default async function ClusterOperationPage(props: {
  params: Promise<{ clusterId: string; operationId: string }>;
}) {
  const { clusterId, operationId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Operation" />
      <OperationPage clusterId={clusterId} operationId={operationId} />
    </>
  );
}
