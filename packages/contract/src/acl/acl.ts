import {
  ACL_OPERATIONS,
  ACL_PATTERN_TYPES,
  ACL_PERMISSIONS,
  ACL_PRINCIPAL_MAX,
  ACL_PRINCIPAL_PATTERN,
  ACL_RESOURCE_NAME_MAX,
  ACL_RESOURCE_TYPES,
  ACL_WILDCARD,
} from "@millrace/domain";
import { z } from "zod";
import { plainText } from "../field.ts";

export const aclPrincipal = z
  .string()
  .max(ACL_PRINCIPAL_MAX)
  .regex(ACL_PRINCIPAL_PATTERN, "must be like User:alice")
  .meta({ description: "User:alice; User:* is every user" });

export const aclResourceName = plainText
  .min(1)
  .max(ACL_RESOURCE_NAME_MAX)
  .meta({ description: "A name, a prefix, or * for every name; kafka-cluster for the cluster" });

const address = z.union([z.ipv4(), z.ipv6()], { error: "must be an IP address" });

export const aclAddress = address.meta({
  description: "Address of the client; without one, only ACLs for every address count",
  override: { type: "string", anyOf: undefined },
});

export const aclHost = z
  .union([z.literal(ACL_WILDCARD), address], { error: "must be * or an IP address" })
  .meta({
    description: "Address of the client; * is every address",
    override: { type: "string", anyOf: undefined },
  });

export const aclPatternType = z.enum(ACL_PATTERN_TYPES).meta({
  description: "literal: exactly this name, or * for all. prefixed: every name that begins with it",
});
export const aclResourceType = z.enum(ACL_RESOURCE_TYPES);
export const aclOperation = z.enum(ACL_OPERATIONS);
export const aclPermission = z.enum(ACL_PERMISSIONS).meta({ description: "deny wins over allow" });

/** The fields that make an ACL; it has no id. */
export const aclFields = {
  principal: aclPrincipal,
  resource_type: aclResourceType,
  resource_name: aclResourceName,
  pattern_type: aclPatternType,
  operation: aclOperation,
  permission: aclPermission,
  host: aclHost,
} as const;

export const Acl = z
  .object({
    principal: z.string(),
    resource_type: aclResourceType,
    resource_name: z.string(),
    pattern_type: aclPatternType,
    operation: aclOperation,
    permission: aclPermission,
    host: z.string(),
  })
  .meta({ id: "Acl" });
export type Acl = z.infer<typeof Acl>;
