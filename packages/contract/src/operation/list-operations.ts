import { defineContract } from "../contract.ts";
import { idField } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Operation } from "./operation.ts";

export const listOperations = defineContract({
  name: "operation.list",
  method: "GET",
  path: "/v1/operations",
  summary: "List operations",
  description: "Newest first.",
  tag: "Operations",
  permission: "operation:read",
  successStatus: 200,
  query: { ...pageQuery, cluster_id: idField("clu").optional() },
  response: pageOf(Operation).meta({ id: "OperationPage" }),
});
