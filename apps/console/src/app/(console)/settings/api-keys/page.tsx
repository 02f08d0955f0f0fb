import { ApiKeyList } from "../../../../api-key/api-key-list.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function ApiKeysPage() {
  return (
    <>
      <PageTitle>API keys</PageTitle>
      <ApiKeyList />
    </>
  );
}
