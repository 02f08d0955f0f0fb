import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { userName } from "./user.ts";

export const deleteUser = defineContract({
  name: "user.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}/users/{user_name}",
  summary: "Delete a user",
  description:
    "The user cannot sign in any more. Its open connections, ACLs and quotas stay; a user created again by this name has them.",
  tag: "Users",
  permission: "user:write",
  successStatus: 204,
  params: { cluster_id: pathId("clu"), user_name: userName },
  response: z.null(),
});
