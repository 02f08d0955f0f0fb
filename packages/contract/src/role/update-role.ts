import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { descriptionText } from "../service-account/service-account.ts";
import { CustomRole, rolePermissions } from "./role.ts";

export const updateRole = defineContract({
  name: "role.update",
  method: "PATCH",
  path: "/v1/roles/{role_id}",
  summary: "Change a custom role",
  description: "Takes effect immediately for all members that have the role.",
  tag: "Roles",
  permission: "member:write",
  stepUp: true,
  successStatus: 200,
  params: { role_id: pathId("rol") },
  body: { description: descriptionText.optional(), permissions: rolePermissions.optional() },
  response: CustomRole,
});
