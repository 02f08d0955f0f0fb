import { ClusterSettings } from "../../../../../cluster/cluster-settings.tsx";

export default async function SettingsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterSettings clusterId={(await props.params).clusterId} />;
}
