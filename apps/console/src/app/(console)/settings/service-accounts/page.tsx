import type { Metadata } from "next";
import { ServiceAccountList } from "../../../../service-account/service-account-list.tsx";

export const metadata: Metadata = { title: "Service accounts" };

export default function ServiceAccountsPage() {
  return <ServiceAccountList />;
}
