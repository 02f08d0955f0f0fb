import type { Metadata } from "next";
import { SecurityPage } from "../../../../account/security-page.tsx";

export const metadata: Metadata = { title: "Security" };

export default function Page() {
  return <SecurityPage />;
}
