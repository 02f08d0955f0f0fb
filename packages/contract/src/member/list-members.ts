import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Member } from "./member.ts";

export const listMembers = defineContract({
  name: "member.list",
  method: "GET",
  path: "/v1/members",
  summary: "List members",
  description: "The users of the organization, oldest first.",
  tag: "Members",
  permission: "member:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(Member).meta({ id: "MemberPage" }),
});
