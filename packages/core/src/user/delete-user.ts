import type { ClusterId, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface DeleteUserInput {
  readonly clusterId: ClusterId;
  readonly userName: string;
}

/**
 * The user cannot sign in any more; its ACLs and quotas stay. Throws `not_found`, `cluster_not_ready`,
 * `broker_unavailable`.
 */
export async function deleteUser(
  core: Core,
  principal: Principal,
  { clusterId, userName }: DeleteUserInput,
): Promise<void> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  await atBroker(userName, async () => {
    const broker = await core.brokerHttp(cluster);
    const { mechanisms } = await broker.describeUser(userName);
    await core.beforeBrokerChange?.();
    await broker.removeCredentials(userName, mechanisms);
  });
}
