import { CreateClusterPage } from "../../../../cluster-form/create-cluster-page.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function NewClusterPage() {
  return (
    <>
      <PageTitle>Create cluster</PageTitle>
      <CreateClusterPage />
    </>
  );
}
