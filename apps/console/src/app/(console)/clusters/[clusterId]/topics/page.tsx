import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";
import { TopicList } from "../../../../../topic/topic-list.tsx";

export default async function TopicsPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Topics" />
      <TopicList clusterId={clusterId} />
    </>
  );
}
