import { MembersPage } from "../../../../member/members-page.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Members</PageTitle>
      <MembersPage />
    </>
  );
}
