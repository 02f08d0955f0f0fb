import type { ClusterId, ClusterUser, Principal } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface GetUserInput {
  readonly clusterId: ClusterId;
  readonly userName: string;
}

/** Throws `not_found`, `cluster_not_ready`, `broker_unavailable`. */
export async function getUser(
  core: Core,
  principal: Principal,
  { clusterId, userName }: GetUserInput,
): Promise<ClusterUser> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  return atBroker(userName, async () => (await core.brokerHttp(cluster)).describeUser(userName));
}
