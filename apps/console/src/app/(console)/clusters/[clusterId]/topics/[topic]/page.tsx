import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";
import { TopicPage } from "../../../../../../topic/topic-page.tsx";

export default async function TopicMessagesPage(props: {
  params: Promise<{ clusterId: string; topic: string }>;
}) {
  const { clusterId, topic } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Messages" />
      <TopicPage clusterId={clusterId} topic={decodeURIComponent(topic)} tab="messages" />
    </>
  );
}
