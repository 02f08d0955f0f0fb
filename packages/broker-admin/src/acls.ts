/** ACLs in Kafka's admin protocol: our names for its numbers. */
import {
  ACL_OPERATIONS,
  ACL_PATTERN_TYPES,
  ACL_PERMISSIONS,
  ACL_RESOURCE_TYPES,
  type Acl,
  type AclFilter,
} from "@millrace/domain";
import {
  AclOperations,
  AclPermissionTypes,
  type Admin,
  type Acl as KafkaAcl,
  ResourcePatternTypes,
  ResourceTypes,
} from "@platformatic/kafka";

/** The rules that the filter finds. Those with codes that we have no name for are left out: Kafka has none either. */
export async function describeAcls(admin: Admin, filter: AclFilter): Promise<Acl[]> {
  const resources = await admin.describeAcls({ filter: filterOf(filter) });
  return resources.flatMap(({ acls, ...resource }) =>
    acls.flatMap((acl) => aclOf({ ...resource, ...acl })),
  );
}

/** Adds rules; one that is there already stays. */
export async function createAcls(admin: Admin, acls: readonly Acl[]): Promise<void> {
  await admin.createAcls({ creations: acls.map(kafkaAclOf) });
}

/** Deletes exactly this rule. False where it is not there. */
export async function deleteAcl(admin: Admin, acl: Acl): Promise<boolean> {
  const deleted = await admin.deleteAcls({ filters: [kafkaAclOf(acl)] });
  return deleted.length > 0;
}

function filterOf(filter: AclFilter) {
  return {
    resourceType: codeOf(ResourceTypes, filter.resourceType ?? "any"),
    resourceName: filter.resourceName ?? null,
    resourcePatternType: codeOf(ResourcePatternTypes, filter.patternType ?? "any"),
    principal: filter.principal ?? null,
    host: filter.host ?? null,
    operation: codeOf(AclOperations, filter.operation ?? "any"),
    permissionType: codeOf(AclPermissionTypes, filter.permission ?? "any"),
  };
}

function kafkaAclOf(acl: Acl): KafkaAcl {
  return {
    resourceType: codeOf(ResourceTypes, acl.resourceType),
    resourceName: acl.resourceName,
    resourcePatternType: codeOf(ResourcePatternTypes, acl.patternType),
    principal: acl.principal,
    host: acl.host,
    operation: codeOf(AclOperations, acl.operation),
    permissionType: codeOf(AclPermissionTypes, acl.permission),
  };
}

function aclOf(acl: KafkaAcl): Acl[] {
  const resourceType = nameOf(ResourceTypes, ACL_RESOURCE_TYPES, acl.resourceType);
  const patternType = nameOf(ResourcePatternTypes, ACL_PATTERN_TYPES, acl.resourcePatternType);
  const operation = nameOf(AclOperations, ACL_OPERATIONS, acl.operation);
  const permission = nameOf(AclPermissionTypes, ACL_PERMISSIONS, acl.permissionType);
  if (!resourceType || !patternType || !operation || !permission) return [];
  const { principal, resourceName, host } = acl;
  return [{ principal, resourceType, resourceName, patternType, operation, permission, host }];
}

/** Our names are Kafka's in lower case. */
function codeOf<K extends string, V extends number>(
  codes: Readonly<Record<K, V>>,
  name: Lowercase<K>,
): V {
  return codes[name.toUpperCase() as K];
}

function nameOf<K extends string, N extends Lowercase<K>>(
  codes: Readonly<Record<K, number>>,
  names: readonly N[],
  code: number,
): N | undefined {
  return names.find((name) => codes[name.toUpperCase() as K] === code);
}
