import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ClusterUserWithPassword, newPassword, newUserName } from "./user.ts";

export const createUser = defineContract({
  name: "user.create",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/users",
  summary: "Create a user",
  description:
    "A Kafka user that signs in with SCRAM-SHA-256 or SCRAM-SHA-512. The broker stores the password salted and hashed only.",
  tag: "Users",
  permission: "user:write",
  successStatus: 201,
  holdsSecret: true,
  stepUp: true,
  params: { cluster_id: pathId("clu") },
  body: { name: newUserName, password: newPassword },
  response: ClusterUserWithPassword,
});
