import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ClusterUserWithPassword, newPassword, scramMechanism, userName } from "./user.ts";

export const rotateUser = defineContract({
  name: "user.rotate",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/users/{user_name}/rotate",
  summary: "Rotate a user's password",
  description: [
    "Open connections stay; clients need the new password to connect again.",
    "Kafka has one password per user and mechanism: for an overlap, rotate the mechanism that your clients do not use yet,",
    "move them to that mechanism with the new password, then remove the other one.",
  ].join(" "),
  tag: "Users",
  permission: "user:write",
  successStatus: 200,
  holdsSecret: true,
  stepUp: true,
  params: { cluster_id: pathId("clu"), user_name: userName },
  body: {
    mechanism: scramMechanism.optional().meta({
      description: "Only this mechanism gets the new password; by default all of the user's do",
    }),
    password: newPassword,
  },
  response: ClusterUserWithPassword,
});
