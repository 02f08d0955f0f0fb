import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { CustomRole } from "./role.ts";

export const getRole = defineContract({
  name: "role.get",
  method: "GET",
  path: "/v1/roles/{role_id}",
  summary: "Get a custom role",
  tag: "Roles",
  permission: "member:read",
  successStatus: 200,
  params: { role_id: pathId("rol") },
  response: CustomRole,
});
