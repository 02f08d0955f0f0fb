/** ACLs over a broker's admin HTTP, whose names are ours. */
import {
  ACL_OPERATIONS,
  ACL_PATTERN_TYPES,
  ACL_PERMISSIONS,
  ACL_RESOURCE_TYPES,
  type Acl,
  type AclFilter,
} from "@millrace/domain";
import { z } from "zod";

const acl = z.object({
  principal: z.string(),
  resource_type: z.enum(ACL_RESOURCE_TYPES),
  resource_name: z.string(),
  pattern_type: z.enum(ACL_PATTERN_TYPES),
  operation: z.enum(ACL_OPERATIONS),
  permission: z.enum(ACL_PERMISSIONS),
  host: z.string(),
});

/** What a broker answers at `/v1/acls`. */
export const AclsAnswer = z.object({ acls: z.array(acl) });

export const AclDeletionAnswer = z.object({ deleted: z.boolean() });

export function aclOf(answered: z.output<typeof acl>): Acl {
  const { resource_type: resourceType, resource_name: resourceName, ...rest } = answered;
  const { pattern_type: patternType, ...same } = rest;
  return { ...same, resourceType, resourceName, patternType };
}

/** An ACL, or a filter of some fields, as a body or a query has it. */
export function aclFields(filter: AclFilter) {
  return {
    principal: filter.principal,
    resource_type: filter.resourceType,
    resource_name: filter.resourceName,
    pattern_type: filter.patternType,
    operation: filter.operation,
    permission: filter.permission,
    host: filter.host,
  };
}
