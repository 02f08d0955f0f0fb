import { type Acl, type ClusterId, DomainError, type Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface DeleteAclInput {
  readonly clusterId: ClusterId;
  readonly acl: Acl;
}

/**
 * Deletes exactly this rule. Throws `not_found`, `cluster_not_ready`, `not_supported` where the cluster does
 * not check ACLs, `broker_unavailable`.
 */
export async function deleteAcl(
  core: Core,
  principal: Principal,
  { clusterId, acl }: DeleteAclInput,
): Promise<void> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  await atBroker(undefined, async () => {
    const broker = await core.brokerHttp(cluster);
    // Looked up first: an ACL that is gone is no change that failed at the broker.
    if ((await broker.listAcls(acl)).length === 0) throw noSuchAcl();
    await core.beforeBrokerChange?.();
    if (!(await broker.deleteAcl(acl))) throw noSuchAcl();
  });
}

function noSuchAcl(): DomainError {
  return new DomainError("not_found", "There is no such ACL.", {
    remedy: "List the ACLs: all fields must be those of the rule.",
  });
}
