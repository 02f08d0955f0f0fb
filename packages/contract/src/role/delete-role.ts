import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteRole = defineContract({
  name: "role.delete",
  method: "DELETE",
  path: "/v1/roles/{role_id}",
  summary: "Delete a custom role",
  description: "Rejected while members have the role.",
  tag: "Roles",
  permission: "member:write",
  stepUp: true,
  successStatus: 204,
  params: { role_id: pathId("rol") },
  response: z.null(),
});
