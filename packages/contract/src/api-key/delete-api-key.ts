import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteApiKey = defineContract({
  name: "apiKey.delete",
  method: "DELETE",
  path: "/v1/api-keys/{api_key_id}",
  summary: "Revoke an API key",
  description: "Takes effect immediately. A key that may do more than the caller is not revoked.",
  tag: "API keys",
  permission: "apikey:write",
  successStatus: 204,
  params: { api_key_id: pathId("key") },
  response: z.null(),
});
