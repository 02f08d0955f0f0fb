import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";
import { QuotaList } from "../../../../../../quota/quota-list.tsx";

export default async function QuotasPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Quotas" />
      <QuotaList clusterId={clusterId} />
    </>
  );
}
