import {
  ACL_CLUSTER_NAME,
  type Acl,
  aclOperationsOf,
  type ClusterId,
  type FieldError,
  type Principal,
  validationFailed,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface CreateAclsInput {
  readonly clusterId: ClusterId;
  readonly acls: readonly Acl[];
}

/**
 * Adds rules; one that is there already stays. Throws `validation_failed` for a rule that has no effect,
 * `not_found`, `cluster_not_ready`, `not_supported` where the cluster does not check ACLs, `broker_unavailable`.
 */
export async function createAcls(
  core: Core,
  principal: Principal,
  { clusterId, acls }: CreateAclsInput,
): Promise<readonly Acl[]> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  for (const acl of acls) assertEffective(acl);
  return atBroker(undefined, async () => {
    const broker = await core.brokerHttp(cluster);
    await core.beforeBrokerChange?.();
    await broker.createAcls(acls);
    return acls;
  });
}

/** Kafka stores rules that never decide anything; nobody means them. */
function assertEffective({ resourceType, resourceName, patternType, operation }: Acl): void {
  const wrong: FieldError[] = [];
  const operations = aclOperationsOf(resourceType);
  if (!operations.includes(operation)) {
    const message = `must be one of ${operations.join(", ")} for the resource type ${resourceType}`;
    wrong.push({ pointer: "/operation", code: "no_effect", message });
  }
  if (resourceType === "cluster" && resourceName !== ACL_CLUSTER_NAME) {
    const message = `must be ${ACL_CLUSTER_NAME} for the resource type cluster`;
    wrong.push({ pointer: "/resource_name", code: "no_effect", message });
  }
  if (resourceType === "cluster" && patternType !== "literal") {
    const message = "must be literal for the resource type cluster";
    wrong.push({ pointer: "/pattern_type", code: "no_effect", message });
  }
  if (wrong.length > 0) throw validationFailed(wrong);
}
