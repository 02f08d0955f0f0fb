import { titleOf } from "../../../../../../cluster/cluster-title.ts";
import { OperationPage } from "../../../../../../operation/operation-page.tsx";

export const generateMetadata = titleOf("Operation");

export default async function ClusterOperationPage(props: {
  params: Promise<{ clusterId: string; operationId: string }>;
}) {
  const { clusterId, operationId } = await props.params;
  return <OperationPage clusterId={clusterId} operationId={operationId} />;
}
