import type { Acl as AclShape } from "@millrace/contract";
import type { Acl } from "@millrace/domain";

/** The contract's fields in the domain's terms. */
export function aclOf(input: AclShape): Acl {
  return {
    principal: input.principal,
    resourceType: input.resource_type,
    resourceName: input.resource_name,
    patternType: input.pattern_type,
    operation: input.operation,
    permission: input.permission,
    host: input.host,
  };
}

export function presentAcl(acl: Acl): AclShape {
  return {
    principal: acl.principal,
    resource_type: acl.resourceType,
    resource_name: acl.resourceName,
    pattern_type: acl.patternType,
    operation: acl.operation,
    permission: acl.permission,
    host: acl.host,
  };
}
