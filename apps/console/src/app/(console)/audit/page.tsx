import type { Metadata } from "next";
import { AuditPage } from "../../../audit/audit-page.tsx";

export const metadata: Metadata = { title: "Audit log" };

export default function AuditLogPage() {
  return <AuditPage />;
}
