import { SecurityPage } from "../../../../account/security-page.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Security</PageTitle>
      <SecurityPage />
    </>
  );
}
