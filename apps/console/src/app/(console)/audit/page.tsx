import { AuditPage } from "../../../audit/audit-page.tsx";
import { PageTitle } from "../../../shell/page-title.tsx";

export default function AuditLogPage() {
  return (
    <>
      <PageTitle>Audit log</PageTitle>
      <AuditPage />
    </>
  );
}
