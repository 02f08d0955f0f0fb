import { ApiKeyWithSecret } from "../api-key/api-key.ts";
import { keyFields } from "../api-key/create-api-key.ts";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const createServiceAccountKey = defineContract({
  name: "serviceAccountKey.create",
  method: "POST",
  path: "/v1/service-accounts/{service_account_id}/keys",
  summary: "Create a key of an account",
  description:
    "The key has the service account's role. The secret is returned once and not stored. The key is listed, rotated and revoked like every API key.",
  tag: "Service accounts",
  permission: "apikey:write",
  stepUp: true,
  successStatus: 201,
  holdsSecret: true,
  params: { service_account_id: pathId("svc") },
  body: keyFields,
  response: ApiKeyWithSecret,
});
