import { titleOf } from "../../../../../cluster/cluster-title.ts";
import { GroupList } from "../../../../../consumer-group/group-list.tsx";

export const generateMetadata = titleOf("Consumer groups");

export default async function GroupsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <GroupList clusterId={(await props.params).clusterId} />;
}
