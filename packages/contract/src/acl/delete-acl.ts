import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { aclFields } from "./acl.ts";

export const deleteAcl = defineContract({
  name: "acl.delete",
  method: "DELETE",
  path: "/v1/clusters/{cluster_id}/acls",
  summary: "Delete an ACL",
  description: "Deletes the ACL with exactly these fields.",
  tag: "ACLs",
  permission: "acl:write",
  stepUp: true,
  successStatus: 204,
  params: { cluster_id: pathId("clu") },
  query: aclFields,
  response: z.null(),
});
