import { ClusterSettings } from "../../../../../cluster/cluster-settings.tsx";
import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";

export default async function SettingsPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Settings" />
      <ClusterSettings clusterId={clusterId} />
    </>
  );
}
