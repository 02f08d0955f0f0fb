import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Invitation } from "./invitation.ts";

export const listInvitations = defineContract({
  name: "invitation.list",
  method: "GET",
  path: "/v1/invitations",
  summary: "List invitations",
  description: "Pending invitations, newest first.",
  tag: "Members",
  permission: "member:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(Invitation).meta({ id: "InvitationPage" }),
});
