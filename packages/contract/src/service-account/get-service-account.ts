import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ServiceAccount } from "./service-account.ts";

export const getServiceAccount = defineContract({
  name: "serviceAccount.get",
  method: "GET",
  path: "/v1/service-accounts/{service_account_id}",
  summary: "Get a service account",
  tag: "Service accounts",
  permission: "apikey:read",
  successStatus: 200,
  params: { service_account_id: pathId("svc") },
  response: ServiceAccount,
});
