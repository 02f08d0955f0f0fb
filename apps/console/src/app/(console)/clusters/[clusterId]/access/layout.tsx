import type { ReactNode } from "react";
import { AccessFrame } from "../../../../../access/access-frame.tsx";

export default async function AccessLayout(props: {
  children: ReactNode;
  params: Promise<{ clusterId: string }>;
}) {
  const { clusterId } = await props.params;
  return <AccessFrame clusterId={clusterId}>{props.children}</AccessFrame>;
}
