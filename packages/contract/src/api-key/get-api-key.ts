import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ApiKey } from "./api-key.ts";

export const getApiKey = defineContract({
  name: "apiKey.get",
  method: "GET",
  path: "/v1/api-keys/{api_key_id}",
  summary: "Get an API key",
  description: "Without its secret. Revoked keys are not found.",
  tag: "API keys",
  permission: "apikey:read",
  successStatus: 200,
  params: { api_key_id: pathId("key") },
  response: ApiKey,
});
