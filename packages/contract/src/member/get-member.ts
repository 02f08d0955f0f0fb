import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Member } from "./member.ts";

export const getMember = defineContract({
  name: "member.get",
  method: "GET",
  path: "/v1/members/{member_id}",
  summary: "Get a member",
  tag: "Members",
  permission: "member:read",
  successStatus: 200,
  params: { member_id: pathId("mem") },
  response: Member,
});
