import { RoleList } from "../../../../role/role-list.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Roles</PageTitle>
      <RoleList />
    </>
  );
}
