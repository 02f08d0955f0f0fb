import { titleOf } from "../../../../../../cluster/cluster-title.ts";
import { TopicPage } from "../../../../../../topic/topic-page.tsx";

export const generateMetadata = titleOf("Messages");

export default async function TopicMessagesPage(props: {
  params: Promise<{ clusterId: string; topic: string }>;
}) {
  const { clusterId, topic } = await props.params;
  return <TopicPage clusterId={clusterId} topic={decodeURIComponent(topic)} tab="messages" />;
}
