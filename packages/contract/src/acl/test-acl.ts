import { ACL_REASONS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import {
  Acl,
  aclAddress,
  aclOperation,
  aclPrincipal,
  aclResourceName,
  aclResourceType,
} from "./acl.ts";

export const testAcl = defineContract({
  name: "acl.test",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/acls/test",
  summary: "Test what a principal may do",
  description:
    "Whether ACLs grant this one operation on this one resource, and which ACL decides. Some requests pass with another: Create on the cluster also allows clients to create any topic.",
  tag: "ACLs",
  permission: "acl:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    principal: aclPrincipal,
    operation: aclOperation,
    resource_type: aclResourceType,
    resource_name: aclResourceName,
    address: aclAddress.optional(),
  },
  response: z
    .object({
      allowed: z.boolean(),
      reason: z.enum(ACL_REASONS).meta({
        description: [
          "authorization_off: the cluster does not check ACLs.",
          "no_acl_for_resource: no ACL names the resource, so allow.everyone.if.no.acl.found decides.",
          "no_acl_allows: ACLs name the resource, and none allows this",
        ].join(" "),
      }),
      acl: Acl.nullable().meta({ description: "The ACL that decides, where one does" }),
    })
    .meta({ id: "AclDecision" }),
});
