import { ClusterSettings } from "../../../../../cluster/cluster-settings.tsx";
import { titleOf } from "../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Settings");

export default async function SettingsPage(props: { params: Promise<{ clusterId: string }> }) {
  return <ClusterSettings clusterId={(await props.params).clusterId} />;
}
