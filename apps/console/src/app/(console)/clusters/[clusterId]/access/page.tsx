import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";
import { UserList } from "../../../../../cluster-user/user-list.tsx";

export default async function UsersPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Users" />
      <UserList clusterId={clusterId} />
    </>
  );
}
