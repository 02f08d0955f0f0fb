import { z } from "zod";
import { defineContract } from "../contract.ts";

export const deleteOtherSessions = defineContract({
  name: "session.deleteOthers",
  method: "DELETE",
  path: "/v1/me/sessions",
  summary: "Revoke all other sessions",
  description: "Every session of the signed-in user but the one that asks.",
  tag: "Account",
  permission: "account:write",
  successStatus: 204,
  response: z.null(),
});
