import type { ReactNode } from "react";
import { ClusterFrame } from "../../../../cluster/cluster-frame.tsx";

export default async function ClusterLayout(props: {
  children: ReactNode;
  params: Promise<{ clusterId: string }>;
}) {
  const { clusterId } = await props.params;
  return <ClusterFrame clusterId={clusterId}>{props.children}</ClusterFrame>;
}
