import { ACL_PATTERN_TYPES } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";
import { Acl, aclFields } from "./acl.ts";

export const listAcls = defineContract({
  name: "acl.list",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/acls",
  summary: "List ACLs",
  description: "Ordered by resource, then principal. Filters that are absent match everything.",
  tag: "ACLs",
  permission: "acl:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    ...pageQuery,
    principal: aclFields.principal.optional(),
    resource_type: aclFields.resource_type.optional(),
    resource_name: aclFields.resource_name.optional(),
    pattern_type: z
      .enum([...ACL_PATTERN_TYPES, "match"])
      .optional()
      .meta({
        description:
          "match: every ACL that applies to resource_name, by its name, by a prefix or by *",
      }),
    operation: aclFields.operation.optional(),
    permission: aclFields.permission.optional(),
    host: aclFields.host.optional(),
  },
  response: pageOf(Acl).meta({ id: "AclPage" }),
});
