import { BrokersPage } from "../../../../../broker/brokers-page.tsx";
import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";

export default async function ClusterBrokersPage(props: {
  params: Promise<{ clusterId: string }>;
}) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Brokers" />
      <BrokersPage clusterId={clusterId} />
    </>
  );
}
