import { PageTitle } from "../../../../shell/page-title.tsx";
import { SingleSignOnPage } from "../../../../single-sign-on/single-sign-on-page.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Single sign-on</PageTitle>
      <SingleSignOnPage />
    </>
  );
}
