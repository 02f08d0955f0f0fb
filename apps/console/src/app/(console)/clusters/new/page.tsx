import type { Metadata } from "next";
import { CreateClusterPage } from "../../../../cluster-form/create-cluster-page.tsx";

export const metadata: Metadata = { title: "Create cluster" };

export default function NewClusterPage() {
  return <CreateClusterPage />;
}
