import type { Metadata } from "next";
import { ApiKeyList } from "../../../../api-key/api-key-list.tsx";

export const metadata: Metadata = { title: "API keys" };

export default function ApiKeysPage() {
  return <ApiKeyList />;
}
