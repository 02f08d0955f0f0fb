import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteSession = defineContract({
  name: "session.delete",
  method: "DELETE",
  path: "/v1/me/sessions/{session_id}",
  summary: "Revoke a session",
  description: "Takes effect immediately.",
  tag: "Account",
  permission: "account:write",
  successStatus: 204,
  params: { session_id: pathId("ses") },
  response: z.null(),
});
