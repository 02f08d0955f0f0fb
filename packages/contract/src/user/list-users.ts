import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { ClusterUser } from "./user.ts";

export const listUsers = defineContract({
  name: "user.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/users",
  summary: "List users",
  description: "Ordered by name.",
  tag: "Users",
  permission: "user:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: { ...pageQuery },
  response: pageOf(ClusterUser).meta({ id: "ClusterUserPage" }),
});
