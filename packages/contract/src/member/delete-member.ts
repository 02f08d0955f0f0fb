import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteMember = defineContract({
  name: "member.delete",
  method: "DELETE",
  path: "/v1/members/{member_id}",
  summary: "Remove a member",
  description:
    "Takes effect immediately. A member with a role above the caller's own, and the last owner, are not removed. API keys that the member created stay.",
  tag: "Members",
  permission: "member:write",
  stepUp: true,
  successStatus: 204,
  params: { member_id: pathId("mem") },
  response: z.null(),
});
