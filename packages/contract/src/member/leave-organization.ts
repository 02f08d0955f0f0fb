import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const leaveOrganization = defineContract({
  name: "account.leave",
  method: "POST",
  path: "/v1/me/leave",
  summary: "Leave the organization",
  description: "Ends the signed-in user's membership. The last owner cannot leave.",
  tag: "Account",
  permission: "account:write",
  successStatus: 204,
  body: { organization_id: pathId("org") },
  response: z.null(),
});
