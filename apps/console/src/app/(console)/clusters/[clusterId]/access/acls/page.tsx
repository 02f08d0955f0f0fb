import { AclPage } from "../../../../../../acl/acl-page.tsx";
import { ClusterTitle } from "../../../../../../cluster/cluster-title.tsx";

export default async function AclsPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="ACLs" />
      <AclPage clusterId={clusterId} />
    </>
  );
}
