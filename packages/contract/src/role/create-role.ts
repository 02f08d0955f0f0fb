import { defineContract } from "../contract.ts";
import { descriptionText } from "../service-account/service-account.ts";
import { CustomRole, roleName, rolePermissions } from "./role.ts";

export const createRole = defineContract({
  name: "role.create",
  method: "POST",
  path: "/v1/roles",
  summary: "Create a custom role",
  description: "A named set of permissions that members can have instead of a built-in role.",
  tag: "Roles",
  permission: "member:write",
  stepUp: true,
  successStatus: 201,
  example: { name: "topic manager", permissions: ["cluster:read", "topic:read", "topic:write"] },
  body: {
    name: roleName,
    description: descriptionText.default(""),
    permissions: rolePermissions,
  },
  response: CustomRole,
});
