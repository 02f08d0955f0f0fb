import { ROLES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { idField, pathId } from "../field.ts";
import { Member } from "./member.ts";

export const updateMember = defineContract({
  name: "member.update",
  method: "PATCH",
  path: "/v1/members/{member_id}",
  summary: "Change a member's role",
  description:
    "Takes effect immediately. Neither the old nor the new role may be above the caller's own. The last owner stays an owner.",
  tag: "Members",
  permission: "member:write",
  stepUp: true,
  successStatus: 200,
  params: { member_id: pathId("mem") },
  body: {
    role: z
      .enum(ROLES)
      .optional()
      .meta({ description: "A built-in role. Exactly one of role and custom_role_id is required" }),
    custom_role_id: idField("rol").optional().meta({
      description: "A custom role of the organization",
    }),
  },
  response: Member,
});
