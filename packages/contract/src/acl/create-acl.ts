import { ACL_WILDCARD } from "@millrace/domain";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Acl, aclFields } from "./acl.ts";

export const createAcl = defineContract({
  name: "acl.create",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/acls",
  summary: "Create an ACL",
  description: "Takes effect at once. An ACL that exists already stays as it is.",
  tag: "ACLs",
  permission: "acl:write",
  successStatus: 201,
  stepUp: true,
  params: { cluster_id: pathId("clu") },
  body: {
    ...aclFields,
    pattern_type: aclFields.pattern_type.default("literal"),
    permission: aclFields.permission.default("allow"),
    host: aclFields.host.default(ACL_WILDCARD),
  },
  response: Acl,
});
