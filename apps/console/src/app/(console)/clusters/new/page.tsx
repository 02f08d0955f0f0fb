import type { Metadata } from "next";
import { CreateClusterForm } from "../../../../cluster/create-cluster-form.tsx";

export const metadata: Metadata = { title: "Create cluster" };

export default function NewClusterPage() {
  return <CreateClusterForm />;
}
