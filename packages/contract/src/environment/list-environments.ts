import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Environment } from "./environment.ts";

export const listEnvironments = defineContract({
  name: "environment.list",
  method: "GET",
  path: "/v1/environments",
  summary: "List environments",
  description: "Oldest first.",
  tag: "Environments",
  permission: "environment:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(Environment).meta({ id: "EnvironmentPage" }),
});
