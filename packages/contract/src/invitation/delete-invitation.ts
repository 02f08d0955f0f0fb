import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteInvitation = defineContract({
  name: "invitation.delete",
  method: "DELETE",
  path: "/v1/invitations/{invitation_id}",
  summary: "Revoke an invitation",
  description: "Its link no longer works. Not for a role above the caller's own.",
  tag: "Members",
  permission: "member:write",
  successStatus: 204,
  params: { invitation_id: pathId("inv") },
  response: z.null(),
});
