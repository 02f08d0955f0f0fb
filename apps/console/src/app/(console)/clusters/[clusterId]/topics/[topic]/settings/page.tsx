import { ClusterTitle } from "../../../../../../../cluster/cluster-title.tsx";
import { TopicPage } from "../../../../../../../topic/topic-page.tsx";

export default async function TopicSettingsPage(props: {
  params: Promise<{ clusterId: string; topic: string }>;
}) {
  const { clusterId, topic } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Topic settings" />
      <TopicPage clusterId={clusterId} topic={decodeURIComponent(topic)} tab="settings" />
    </>
  );
}
