import { AclPage } from "../../../../../../acl/acl-page.tsx";
import { titleOf } from "../../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("ACLs");

export default async function AclsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <AclPage clusterId={(await props.params).clusterId} />;
}
