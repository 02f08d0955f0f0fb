import { GroupList } from "../../../../../consumer-group/group-list.tsx";

export default async function GroupsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <GroupList clusterId={(await props.params).clusterId} />;
}
