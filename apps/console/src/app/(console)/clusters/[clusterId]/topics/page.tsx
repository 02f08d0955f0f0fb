import { TopicList } from "../../../../../topic/topic-list.tsx";

export default async function TopicsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <TopicList clusterId={(await props.params).clusterId} />;
}
