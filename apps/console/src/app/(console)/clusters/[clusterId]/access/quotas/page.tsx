import { titleOf } from "../../../../../../cluster/cluster-title.ts";
import { QuotaList } from "../../../../../../quota/quota-list.tsx";

export const generateMetadata = titleOf("Quotas");

export default async function QuotasPage(props: { params: Promise<{ clusterId: string }> }) {
  return <QuotaList clusterId={(await props.params).clusterId} />;
}
