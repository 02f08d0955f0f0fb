import type { Metadata } from "next";
import { ClusterList } from "../../../cluster/cluster-list.tsx";

export const metadata: Metadata = { title: "Clusters" };

export default function ClustersPage() {
  return <ClusterList />;
}
