import { defineContract } from "../contract.ts";
import { idField } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { ApiKey } from "./api-key.ts";

export const listApiKeys = defineContract({
  name: "apiKey.list",
  method: "GET",
  path: "/v1/api-keys",
  summary: "List API keys",
  description: "Newest first, without revoked keys.",
  tag: "API keys",
  permission: "apikey:read",
  successStatus: 200,
  query: {
    ...pageQuery,
    service_account_id: idField("svc").optional().meta({
      description: "Only keys of this service account",
    }),
  },
  response: pageOf(ApiKey).meta({ id: "ApiKeyPage" }),
});
