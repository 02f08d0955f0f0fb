import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Invitation } from "./invitation.ts";

export const getInvitation = defineContract({
  name: "invitation.get",
  method: "GET",
  path: "/v1/invitations/{invitation_id}",
  summary: "Get an invitation",
  description: "Without its token. Only pending invitations are found.",
  tag: "Members",
  permission: "member:read",
  successStatus: 200,
  params: { invitation_id: pathId("inv") },
  response: Invitation,
});
