import { redirect } from "next/navigation";

/** Where the page was before there were settings. */
export default function ApiKeysPage() {
  redirect("/settings/api-keys");
}
