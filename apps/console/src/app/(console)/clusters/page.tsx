import { ClusterList } from "../../../cluster/cluster-list.tsx";
import { PageTitle } from "../../../shell/page-title.tsx";

export default function ClustersPage() {
  return (
    <>
      <PageTitle>Clusters</PageTitle>
      <ClusterList />
    </>
  );
}
