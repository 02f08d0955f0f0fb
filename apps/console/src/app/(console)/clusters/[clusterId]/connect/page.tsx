import { Connect } from "../../../../../cluster/connect.tsx";

export default async function ConnectPage(props: { params: Promise<{ clusterId: string }> }) {
  return <Connect clusterId={(await props.params).clusterId} />;
}
