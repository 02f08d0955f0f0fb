import { SessionsPage } from "../../../../account/sessions-page.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Sessions</PageTitle>
      <SessionsPage />
    </>
  );
}
