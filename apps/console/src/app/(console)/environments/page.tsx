import { EnvironmentList } from "../../../environment/environment-list.tsx";
import { PageTitle } from "../../../shell/page-title.tsx";

export default function EnvironmentsPage() {
  return (
    <>
      <PageTitle>Environments</PageTitle>
      <EnvironmentList />
    </>
  );
}
