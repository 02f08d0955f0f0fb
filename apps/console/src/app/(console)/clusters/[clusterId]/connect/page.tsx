import { titleOf } from "../../../../../cluster/cluster-title.ts";
import { Connect } from "../../../../../cluster/connect.tsx";

export const generateMetadata = titleOf("Connect");

export default async function ConnectPage(props: { params: Promise<{ clusterId: string }> }) {
  return <Connect clusterId={(await props.params).clusterId} />;
}
