import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ClusterUser, userName } from "./user.ts";

export const getUser = defineContract({
  name: "user.get",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/users/{user_name}",
  summary: "Get a user",
  tag: "Users",
  permission: "user:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), user_name: userName },
  response: ClusterUser,
});
