import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteServiceAccount = defineContract({
  name: "serviceAccount.delete",
  method: "DELETE",
  path: "/v1/service-accounts/{service_account_id}",
  summary: "Delete a service account",
  description: "Revokes its API keys immediately.",
  tag: "Service accounts",
  permission: "apikey:write",
  stepUp: true,
  successStatus: 204,
  params: { service_account_id: pathId("svc") },
  response: z.null(),
});
