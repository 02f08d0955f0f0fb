import { SCRAM_MECHANISMS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { ClusterUser, scramMechanism, userName } from "./user.ts";

export const updateUser = defineContract({
  name: "user.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}/users/{user_name}",
  summary: "Remove a mechanism of a user",
  description: "Ends the overlap after one mechanism was rotated and every client uses it.",
  tag: "Users",
  permission: "user:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu"), user_name: userName },
  body: {
    mechanisms: z.array(scramMechanism).min(1).max(SCRAM_MECHANISMS.length).meta({
      description:
        "Mechanisms to keep; the credentials for all others are removed. A removed one cannot be added again",
    }),
  },
  response: ClusterUser,
});
