import { titleOf } from "../../../../../cluster/cluster-title.ts";
import { UserList } from "../../../../../cluster-user/user-list.tsx";

export const generateMetadata = titleOf("Users");

export default async function UsersPage(props: { params: Promise<{ clusterId: string }> }) {
  return <UserList clusterId={(await props.params).clusterId} />;
}
