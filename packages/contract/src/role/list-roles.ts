import { z } from "zod";
import { defineContract } from "../contract.ts";
import { CustomRole } from "./role.ts";

export const listRoles = defineContract({
  name: "role.list",
  method: "GET",
  path: "/v1/roles",
  summary: "List custom roles",
  description: "By name.",
  tag: "Roles",
  permission: "member:read",
  successStatus: 200,
  response: z.object({ items: z.array(CustomRole) }).meta({ id: "CustomRoleList" }),
});
