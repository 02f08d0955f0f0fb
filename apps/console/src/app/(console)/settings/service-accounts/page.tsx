import { ServiceAccountList } from "../../../../service-account/service-account-list.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function ServiceAccountsPage() {
  return (
    <>
      <PageTitle>Service accounts</PageTitle>
      <ServiceAccountList />
    </>
  );
}
