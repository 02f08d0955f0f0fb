import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { ServiceAccount } from "./service-account.ts";

export const listServiceAccounts = defineContract({
  name: "serviceAccount.list",
  method: "GET",
  path: "/v1/service-accounts",
  summary: "List service accounts",
  description: "Newest first.",
  tag: "Service accounts",
  permission: "apikey:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(ServiceAccount).meta({ id: "ServiceAccountPage" }),
});
