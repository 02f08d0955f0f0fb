import type { ClusterId, ClusterUser, Principal, ScramMechanism } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { requireMechanism } from "./require-mechanism.ts";

export interface UpdateUserInput {
  readonly clusterId: ClusterId;
  readonly userName: string;
  /** What the user keeps, at least one. */
  readonly mechanisms: readonly ScramMechanism[];
}

/**
 * Removes the credentials for all other mechanisms, with their password. Throws `not_found`,
 * `cluster_not_ready`, `validation_failed` for a mechanism that the user does not have, `broker_unavailable`.
 */
export async function updateUser(
  core: Core,
  principal: Principal,
  { clusterId, userName, mechanisms }: UpdateUserInput,
): Promise<ClusterUser> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  return atBroker(userName, async () => {
    const broker = await core.brokerHttp(cluster);
    const user = await broker.describeUser(userName);
    const kept = new Set(mechanisms.map((each) => requireMechanism(user, each, "/mechanisms")));
    const removed = user.mechanisms.filter((each) => !kept.has(each));
    if (removed.length === 0) return user;
    await core.beforeBrokerChange?.();
    await broker.removeCredentials(userName, removed);
    return { ...user, mechanisms: user.mechanisms.filter((each) => kept.has(each)) };
  });
}
