import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";
import { Connect } from "../../../../../cluster/connect.tsx";

export default async function ConnectPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Connect" />
      <Connect clusterId={clusterId} />
    </>
  );
}
