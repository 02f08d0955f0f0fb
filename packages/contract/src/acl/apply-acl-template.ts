import { ACL_TEMPLATES, ACL_WILDCARD } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Acl, aclHost, aclPatternType, aclPrincipal, aclResourceName } from "./acl.ts";

export const applyAclTemplate = defineContract({
  name: "acl.applyTemplate",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/acls/apply-template",
  summary: "Allow a producer or consumer",
  description: "The same ACLs as kafka-acls --producer and --consumer create.",
  tag: "ACLs",
  permission: "acl:write",
  successStatus: 201,
  stepUp: true,
  params: { cluster_id: pathId("clu") },
  body: {
    template: z.enum(ACL_TEMPLATES),
    principal: aclPrincipal,
    topic: aclResourceName,
    group: aclResourceName.optional().meta({ description: "Consumer group; for consumers" }),
    transactional_id: aclResourceName
      .optional()
      .meta({ description: "For producers that use transactions" }),
    pattern_type: aclPatternType.default("literal"),
    host: aclHost.default(ACL_WILDCARD),
  },
  response: z.object({ items: z.array(Acl) }).meta({ id: "AclList" }),
});
