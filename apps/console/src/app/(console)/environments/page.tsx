import type { Metadata } from "next";
import { EnvironmentList } from "../../../environment/environment-list.tsx";

export const metadata: Metadata = { title: "Environments" };

export default function EnvironmentsPage() {
  return <EnvironmentList />;
}
