import { titleOf } from "../../../../../cluster/cluster-title.ts";
import { TopicList } from "../../../../../topic/topic-list.tsx";

export const generateMetadata = titleOf("Topics");

export default async function TopicsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <TopicList clusterId={(await props.params).clusterId} />;
}
