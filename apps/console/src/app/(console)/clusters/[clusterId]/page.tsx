import { ClusterOverview } from "../../../../cluster/cluster-overview.tsx";
import { titleOf } from "../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Overview");

export default async function OverviewPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterOverview clusterId={(await props.params).clusterId} />;
}
