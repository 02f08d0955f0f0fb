import { AccessReviewPage } from "../../../../access-review/access-review-page.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Access review</PageTitle>
      <AccessReviewPage />
    </>
  );
}
